"""workflows/hello.py, through the real command."""

import pytest


@pytest.mark.parametrize(
    ("words", "greeting"),
    [
        (["--set", "name=Ana"], "Hello, Ana"),
        (["--input", "workflows/hello.json"], "Hello, Ana"),
        ([], "Hello, world"),
    ],
)
def test_it_greets(project, words, greeting):
    assert project.flow("run", "hello", *words) == f'"{greeting}"\n'


def test_another_field_is_refused_with_the_nearest_one(project):
    process = project.start("run", "hello", "--set", "nmae=Ana")
    out, err = process.communicate()
    assert (process.returncode, out) == (65, "")
    assert "$.nmae" in err
    assert "did you mean name?" in err
    assert project.journal() == []
