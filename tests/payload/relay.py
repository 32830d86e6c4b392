"""A relay that holds back what passes through it, as a long line would.

python relay.py HOST:PORT SECONDS: prints its port of 127.0.0.1, and runs until its input ends.
"""

import asyncio
import contextlib
import sys


async def main(address, seconds):
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()

    async def pass_on(reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                loop.call_later(seconds, writer.write, data)
        loop.call_later(seconds, writer.close)

    async def connect(reader, writer):
        to, back = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pass_on(reader, back), pass_on(to, writer))

    async with await asyncio.start_server(connect, "127.0.0.1", 0) as server:
        sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
        sys.stdout.flush()
        await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
