"""The recipe for Spack, read without Spack, needs the same as pyproject.toml."""

from __future__ import annotations

import ast
import re

from cosched.documents import read_toml
from cosched.version import VERSION
from tests.places import ROOT

REPO = ROOT / "scripts/packaging/spack/spack_repo/cosched"
RECIPE = REPO / "packages/cosched/package.py"
REQUIREMENT = re.compile(r"([\w.-]+)>=([\d.]+)(?:; python_version < '3\.11')?")


def calls(name):
    """Returns the first argument and the keywords of each call in the recipe's class."""
    (recipe,) = [n for n in ast.parse(RECIPE.read_text()).body if type(n) is ast.ClassDef]
    assert recipe.name == "Cosched"
    assert [base.id for base in recipe.bases] == ["PythonPackage"]
    return {
        ast.literal_eval(node.value.args[0]): {
            word.arg: ast.literal_eval(word.value) for word in node.value.keywords
        }
        for node in recipe.body
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Call)
        and node.value.func.id == name
    }


def spec(requirement):
    """Returns a requirement of pip as a spec of Spack."""
    name, least = REQUIREMENT.fullmatch(requirement).groups()
    return f"py-{name.replace('_', '-')}@{least}:"


def test_recipe_needs_what_the_project_needs():
    project = read_toml(ROOT / "pyproject.toml")
    at_run = {spec(each) for each in project["project"]["dependencies"]}
    at_build = {spec(each) for each in project["build-system"]["requires"]}
    python = "python@" + project["project"]["requires-python"].removeprefix(">=") + ":"
    needed = calls("depends_on")
    assert needed.keys() == {*at_run, *at_build, python, "c", "mpi", "hwloc"}
    for each, words in needed.items():
        types = words["type"] if isinstance(words["type"], tuple) else (words["type"],)
        assert ("run" in types) == (each in {*at_run, python, "mpi", "hwloc"}), each
        assert ("build" in types) == (each in {*at_build, python, "c", "mpi"}), each
    assert needed["py-tomli@2:"]["when"] == "^python@:3.10"


def test_recipe_has_the_version_and_the_licence():
    assert calls("version")[VERSION] == {"tag": f"v{VERSION}"}
    project = read_toml(ROOT / "pyproject.toml")["project"]
    assert list(calls("license")) == [project["license"]]


def test_repository_has_the_name_of_its_folder():
    lines = (REPO / "repo.yaml").read_text().split("\n")
    assert lines == ["repo:", f"  namespace: {REPO.name}", "  api: v2.0", ""]
