"""An example: reserve, charge, ask before a large order is charged, and undo what was done if it goes wrong.

flow run order --set item=lamp --set amount=20
flow run order --set item=sofa --set amount=900      then: flow approve @last "large order"
"""

from flowstone import Done, Flow, step, workflow


@step(retries=3, retry_delay="1s")
def reserve(item: str) -> str:
    """Do the work. A step is an ordinary function; what it returns is recorded, and it is not called again after that."""
    return f"reserved {item}"


def release(done: Done[str, str]) -> str:
    """Undo `reserve`; called if the run fails or is cancelled later."""
    return f"released {done.args[0]}"


def charge(amount: int) -> str:
    """Take the money."""
    return f"charged {amount}"


@workflow
async def order(flow: Flow, item: str, amount: int) -> str:
    """Sell something."""
    reserved = await flow.do("reserve", reserve, item, undo=release)
    if amount > 500:
        answer = await flow.approval("large order", message=f"{item} for {amount}", expiry="2d")
        if not answer.approved:
            flow.cancel("not approved")
    charged = await flow.do("charge", charge, amount)
    return f"{reserved}, {charged}"
