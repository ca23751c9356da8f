"""What looks like a secret is masked in what is shown of a journal, and nothing else is."""

import pytest

from flowstone.journal.ledger import Ledger
from flowstone.journal.secrets import MASK, Secrets
from flowstone.journal.timeline import spans
from support.journal_builder import Journal, five_minutes


@pytest.mark.parametrize("name", ["password", "DB_Password", "x-token-2", "clientSecret", "Authorization", "tokens"])
def test_names_that_look_like_secrets(name):
    assert Secrets().hides(name)


KEYS = ["api_key", "apiKey", "X-Api-Key", "access_key", "AWS_ACCESS_KEY_ID", "privateKey", "private key", "proxy-authorization"]
OTHERS = ["db_passwd", "PWD", "credentials", "set-cookie", "cookies", "bearer", "bearerToken", "passphrase", "token_count"]


@pytest.mark.parametrize("name", [*KEYS, *OTHERS])
def test_names_of_keys_and_of_what_is_like_a_password(name):
    assert Secrets().hides(name)
    assert Secrets().masked({name: "sk-secret-999"}) == {name: MASK}


COUNTS = ["tokens", "max_tokens", "total_tokens", "maxTokens", "token_count", "tokenLimit", "tokens_used", "count tokens"]


@pytest.mark.parametrize("name", COUNTS)
def test_numbers_of_tokens_are_shown_and_texts_are_not(name):
    given = {name: 512, "deep": [{name: {"input": 7, "output": 0.5, "text": "abc"}}], "token": 123456}
    shown = {name: 512, "deep": [{name: {"input": 7, "output": 0.5, "text": MASK}}], "token": MASK}
    assert Secrets().masked(given) == shown
    assert Secrets().masked({name: ["abc", 1]}) == {name: [MASK, 1]}
    counted = Journal().claimed().state(name, 512).ran(name, 512).completed()
    assert [event.body() for event in Secrets().events(counted.events)] == [event.body() for event in counted.events]


@pytest.mark.parametrize("name", ["key", "keys", "monkey", "primary_key", "apikeeper", "private", "access", "passed", "cook"])
def test_names_that_only_sound_like_it(name):
    assert not Secrets().hides(name)


@pytest.mark.parametrize("name", ["pass", "authorization_id", "user", "", "tok en"])
def test_names_that_do_not(name):
    assert not Secrets().hides(name)


def test_settings_add_names_literally():
    added = Secrets(["IBAN", "*.pin", "a[b]"])
    assert added.hides("iban")
    assert added.hides("card.pin")
    assert added.hides("a[b]")
    assert not added.hides("cardxpin")
    assert not added.hides("ab")
    assert added.hides("password")


def test_masking_reaches_any_depth_and_leaves_null():
    value = {"user": "ana", "auth": [{"token": {"a": 1}, "kind": "x"}], "password": None, "n": [1, 2.5, True]}
    assert Secrets().masked(value) == {
        "user": "ana",
        "auth": [{"token": MASK, "kind": "x"}],
        "password": None,
        "n": [1, 2.5, True],
    }


def test_events_lose_their_secrets_and_keep_all_else():
    journal = Journal({"password": "p1", "user": "ana"}).claimed()
    journal.ran("log in", {"access_token": "p2", "ok": True}).ran("fetch token", "p3").ran("token kind", {"kind": "x"})
    journal.state("api_secret", "p4").state("region", {"secret": "p5"})
    journal.gate("sign", schema={"properties": {"password": {"type": "string"}}})
    journal.answered("approve:sign", data={"password": "p6"}).closed("approve:sign", data={"password": "p6"})
    journal.completed({"token": "p7", "n": 1})
    shown = Secrets().events(journal.events)
    text = "".join(event.text for event in shown)
    assert [secret for secret in ("p1", "p2", "p3", "p4", "p5", "p6", "p7") if f'"{secret}"' in text] == []
    ledger = Ledger(shown)
    assert ledger.created["input"] == {"password": MASK, "user": "ana"}
    assert ledger.output == {"token": MASK, "n": 1}
    assert ledger.state == {"api_secret": MASK, "region": {"secret": MASK}}
    assert ledger.operations["token kind"].completion.body()["result"] == {"kind": "x"}
    assert ledger.operations["approve:sign"].opened["schema"] == {"properties": {"password": {"type": "string"}}}
    assert spans(shown) == spans(journal.events)


def test_a_journal_without_secrets_is_given_back_as_it_is():
    events = five_minutes().events
    assert all(one is other for one, other in zip(Secrets().events(events), events, strict=True))
