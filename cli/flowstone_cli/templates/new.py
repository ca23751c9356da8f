"""A new workflow, NAME: say here what it is for.

flow run NAME --set name=Ana
"""

from flowstone import Flow, workflow


def work(name: str) -> str:
    """Do one thing. What it returns is recorded; if it raises, it is retried."""
    return f"done for {name}"


@workflow
async def NAME(flow: Flow, name: str) -> str:
    """Say in one line what it does; flow list shows this."""
    return await flow.do("work", work, name)
