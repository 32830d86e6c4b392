"""The delegate's messages, by their names; `{}` is what varies."""

# While a group is made.
GROUP = "process group of {} ranks: "
DELEGATES = " goes to SwitchML"
STAYS = "allreduce stays with Gloo"
WARNING = "warning: rank {}: "
REQUIRED = "SWITCHML_REQUIRE is set, but in this "
DIFFERS = "{} where rank 0 has {}"
NO_NUMBER = "{} is '{}', not a number of {}"
NO_CONFIG = "no switchml.cfg"
OTHER_SIZE = " num_workers = {}, the group has {} rank"
OTHER_RANK = " rank = {}, the process has rank {}"
OTHER_GROUP = "another process group delegates"
OTHER_IS_MADE = "another process group is being made"
PART = "the group has {} of the {} workers"
UNMET = "SWITCHML_REQUIRE is set, but no process group of this process used SwitchML; "
LATER_GROUP = "group {} of {} ranks, and SWITCHML_GROUP={}"
NO_ADDRESS = "no address of {} was found within {} ms"
UNSTARTED = "the SwitchML context did not start"
WRONG_PROBE = "SwitchML summed the probe wrongly: "

# In an allreduce.
FAILED = "SwitchML allreduce failed: "
ABORTED = "the process group was aborted"
UNSUBMITTED = " could not be submitted: "
LATE = " did not finish within {} ms"
GONE = "rank {} is gone"

# With failover.
OVER_GLOO = "; allreduce goes over Gloo from here on"
STUCK = "the ranks cannot go on over Gloo: "
RETURNS = "allreduce returns to SwitchML at call {} after the failure"
