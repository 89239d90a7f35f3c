"""The shape of the repository, where breaking it breaks something far away.

Reads files only. Each test says what would go wrong.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ENTRY_FILES = {
    "functions/function.py": ["new"],
    "functions/main.py": ["receive", "forward", "reconcile"],
}
HOSTS = {"functions_framework", "func_python", "hypercorn", "gunicorn", "starlette", "flask"}
LONGEST_FILE = 400
LONGEST_FUNCTION = 60
BINARY_OR_GENERATED = (".lock", ".png", ".svg")
# Bracketed letters keep the patterns from finding themselves.
NOT_FOR_EVERYONE = re.compile(
    r"/wo[r]k/|/roo[t]/|/hom[e]/[a-z]|/tm[p]/(?!\.\.\.|<)|bash_job[s]|\.\./share[d]/"
    r"|pyp[i]\.org|pythonhoste[d]\.org|registry\.npmj[s]|repo1\.mave[n]|index-ur[l] *=|find-link[s] *="
)


def files(*patterns: str) -> list[str]:
    """Tracked files, and those that would be with the next commit."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return sorted(name for name in listed.split("\0") if name and (ROOT / name).is_file())


def parsed(name: str) -> ast.Module:
    return ast.parse((ROOT / name).read_text(encoding="utf-8"), filename=name)


def imported(tree: ast.Module) -> Iterator[str]:
    """Top-level names of everything imported anywhere in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0]


def test_the_operator_folder_is_no_package_since_it_would_shadow_the_standard_library():
    assert files("operator/__init__.py", "**/operator/__init__.py") == []
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_python_starts_with_the_repository_root_on_its_path():
    # Without site-packages (-S): the .pth file of our editable install would hide the fault.
    program = "import collections, operator; operator.itemgetter"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-S", "-c", program], env=environment, check=True)


@pytest.mark.parametrize("folder", ["functions", "operator", "spark", "infra", "docs", "examples"])
def test_project_folders_are_not_packages(folder):
    assert not (ROOT / folder / "__init__.py").exists()


def test_the_entry_files_are_exactly_those_that_the_two_hosts_load():
    assert [name for name in files("functions/*.py") if name.count("/") == 1] == sorted(ENTRY_FILES)


@pytest.mark.parametrize("name", ENTRY_FILES)
def test_entry_files_take_no_name_of_the_standard_library_since_the_framework_overwrites_the_module(name):
    assert Path(name).stem not in sys.stdlib_module_names


@pytest.mark.parametrize(("name", "functions"), ENTRY_FILES.items())
def test_entry_files_hold_plain_functions_only_since_they_may_be_loaded_twice(name, functions):
    docstring, *body = parsed(name).body
    assert isinstance(docstring, ast.Expr)
    definitions = [node for node in body if not isinstance(node, ast.Import | ast.ImportFrom)]
    assert all(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in definitions)
    assert [node.name for node in definitions] == functions
    assert [node.name for node in definitions if node.decorator_list] == []


def test_no_function_imports_a_host_since_the_two_hosts_exclude_each_other():
    modules = files("functions/*.py", "operator/*.py")
    found = {name: sorted(HOSTS.intersection(imported(parsed(name)))) for name in modules}
    assert {name: hosts for name, hosts in found.items() if hosts} == {}


def test_what_is_tested_imports_nothing_of_the_tests():
    modules = files(*(f"{folder}/*.py" for folder in ("functions", "operator", "spark", "infra", "docs", "examples")))
    assert len(modules) > 300
    assert [name for name in modules if "tests" in imported(parsed(name))] == []


def test_only_the_server_and_the_host_know_uvicorn():
    knowing = [name for name in files("functions/*.py") if "uvicorn" in imported(parsed(name))]
    assert [
        name for name in knowing if not name.startswith(("functions/headrace/host/", "functions/headrace/server/"))
    ] == []


@pytest.mark.parametrize("name", [Path(name).stem for name in ENTRY_FILES])
def test_importing_an_entry_file_opens_no_connection_and_starts_no_thread(name):
    program = (
        "import sys, threading\n"
        "seen = []\n"
        "watched = ('socket.connect', 'socket.bind')\n"
        "sys.addaudithook(lambda event, _: event in watched and seen.append(event))\n"
        f"import {name}\n"
        "assert seen == [], seen\n"
        "assert threading.active_count() == 1, threading.enumerate()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "functions"), "NATS_URL": "nats://127.0.0.1:9"}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=30)


def test_tls_contexts_are_made_in_one_place_since_what_python_makes_by_itself_differs_by_its_version():
    makers = {"SSLContext", "create_default_context", "create_urllib3_context", "_create_unverified_context"}

    def called(node: ast.AST) -> str:
        target = node.func if isinstance(node, ast.Call) else node
        return target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")

    found = {
        name
        for name in files("functions/*.py", "operator/*.py", "spark/*.py", "examples/*.py", "bench/*.py")
        for node in ast.walk(parsed(name))
        if isinstance(node, ast.Call) and called(node) in makers
    }
    assert found == {"functions/headrace/core/trust.py"}


def test_the_distribution_is_what_kn_func_demands():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["name"] == "function"
    assert project["project"]["requires-python"] == ">=3.10"
    shipped = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    assert "functions/function.py" in shipped
    assert [path for path in shipped if Path(path).stem == "service"] == []


def test_modules_are_short_enough_to_be_read_at_once():
    lengths = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in files("*.py")}
    long = {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE}
    assert long == {}


def test_functions_are_short_enough_to_be_read_at_once():
    long = [
        f"{name}:{node.lineno} {node.name}"
        for name in files("*.py")
        for node in ast.walk(parsed(name))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= LONGEST_FUNCTION
    ]
    assert long == []


def test_each_check_that_is_turned_off_says_why():
    mark = re.compile(r"# (?:type: ignore\[[\w, -]+\]|noqa: [A-Z0-9, ]+)$")
    silent = [
        f"{name}:{number}"
        for name in files("*.py")
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1)
        if mark.search(line.rstrip())
    ]
    assert silent == []


def test_every_module_opens_with_its_promise():
    modules = files("functions/*.py", "operator/*.py", "bench/*.py")
    assert [name for name in modules if not ast.get_docstring(parsed(name))] == []


def test_plugins_name_their_fixtures_apart_since_pytest_loads_each_for_all_tests_that_come_after_it():
    places: dict[str, list[str]] = {}
    for name in files("tests/support/*.py"):
        for node in parsed(name).body:
            decorators = getattr(node, "decorator_list", [])
            if any("pytest.fixture" in ast.unparse(decorator) for decorator in decorators):
                places.setdefault(node.name, []).append(name)
    assert {fixture: names for fixture, names in places.items() if len(names) > 1} == {}


def test_no_file_names_a_registry_or_a_path_of_the_machine_that_it_was_written_on():
    found = [
        f"{name}:{number}: {line.strip()[:80]}"
        for name in files()
        if not name.endswith(BINARY_OR_GENERATED)
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1)
        if NOT_FOR_EVERYONE.search(line)
    ]
    assert found == []


def test_ci_can_be_started():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


# What is not of one package: the repository itself, and what is tested from its outside.
NOT_MIRRORED = {"house", "infra", "bench"}
PRODUCT = {"operator": "operator/headrace_operator", "cli": "operator/headrace_cli", "spark": "spark/pyspark_jetstream"}
MOST_FLAT = 30


def mirrored(folder: str) -> Path:
    """The folder of the product whose tests are in `tests/<suite>/<folder>`."""
    top, _, rest = folder.partition("/")
    return ROOT / PRODUCT.get(top, f"functions/headrace/{top}") / rest


@pytest.mark.parametrize("suite", ["unit", "contract"])
def test_tests_stand_in_the_folder_of_what_they_test(suite):
    folders = {str(Path(name).parent.relative_to(f"tests/{suite}")) for name in files(f"tests/{suite}/**/test_*.py")}
    assert len(folders) > 5
    strangers = [one for one in folders if one.split("/")[0] not in NOT_MIRRORED and not mirrored(one).is_dir()]
    assert strangers == []
    assert "." not in folders


def test_no_folder_of_tests_is_too_full_to_be_looked_through():
    counted = Counter(str(Path(name).parent) for name in files("tests/**/*.py"))
    assert {folder: count for folder, count in counted.items() if count > MOST_FLAT} == {}


def test_a_class_name_means_one_thing():
    owners: dict[str, list[str]] = {}
    for name in files("functions/*.py", "operator/*.py", "spark/*.py"):
        for node in parsed(name).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                owners.setdefault(node.name, []).append(name)
    assert {name: found for name, found in owners.items() if len(found) > 1} == {}
