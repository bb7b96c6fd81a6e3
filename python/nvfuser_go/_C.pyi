def version() -> str:
    """The version of the library, such as "0.1.0"."""

def forked() -> bool:
    """Whether this process was forked after the library was loaded."""

def op_table() -> str:
    """The table of operations as JSON; nvf_op_table in nvfuser_go.h describes the keys."""
