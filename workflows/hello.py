"""The smallest workflow: one step, and an input with a default.

flow run hello --set name=Ana
"""

from flowstone import Flow, workflow


def greet(name: str) -> str:
    """Do the work. A step is an ordinary function; what it returns is recorded, and it is never called again after that."""
    return f"Hello, {name}"


@workflow
async def hello(flow: Flow, name: str = "world") -> str:
    """Greet somebody."""
    return await flow.do("greet", greet, name)
