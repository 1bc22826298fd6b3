"""The documentation says what is: links lead somewhere, nothing that users rely on is missing."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import click
import msgspec
import pytest
import yaml

from orlop import wellknown
from orlop.cli.kubectl_plugin.kubectl_slurm import slurm
from orlop.cli.main import COMMANDS, orlop
from orlop.settings import Paths, Settings
from tools import pod_fields

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
REFERENCE = ROOT / "docs" / "reference"
SAVED_HOME = ROOT / "tests" / "saved_home" / "home.tar.gz"


# Words that mean nothing, or something else, to a reader who knows Kubernetes and Slurm. Those of
# the glossary that are plain English in most of the docs (home, plan, claim, proof) are not here.
OUR_WORDS = (
    "agent",
    "container server",
    "gang",
    "host image",
    "journal",
    "mirror pod",
    "native runtime",
    "netd",
    "port holder",
    "rank set",
    "send twin",
    "successor",
)
GLOSSARY = ROOT / "docs" / "explanation" / "glossary.md"
EXPLAINING = [
    page
    for page in PAGES
    if page.parent.name in {"tutorial", "howto", "explanation"} or page == README
    if page.name not in {"glossary.md", "map.md"}
]


def prose(page: Path) -> str:
    """A page without its headings, blocks of code, pictures, and where its links lead."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(#|    ).*$|!\[[^\]]*\]\([^)]*\)", "", text, flags=re.MULTILINE)
    return re.sub(r"\]\([^)]*\)", "]", text)


@pytest.mark.parametrize("page", EXPLAINING, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_word_of_ours_is_explained_where_a_page_first_says_it(page):
    """It is a link, to the glossary or to the page about it, or is set apart by its meaning."""
    text = prose(page)
    for word in OUR_WORDS:
        used = re.search(rf"(?<![\w`/.-]){word}s?(?![\w`/])", text, re.IGNORECASE)
        if used is None:
            continue
        before = text[: used.start()]
        is_linked = before.rfind("[") > before.rfind("]")
        is_set_apart = before.endswith("*") or before.count("**") % 2 == 1
        assert is_linked or is_set_apart, f"{word}: …{before[-40:]}{used[0]}…"


def test_a_word_of_ours_is_in_the_glossary():
    known = GLOSSARY.read_text()
    assert [word for word in OUR_WORDS if f"**{word}**" not in known] == []


@pytest.mark.parametrize(
    "index",
    [
        "README.md",
        "docs/tutorial/first-steps.md",
        "docs/howto/README.md",
        "docs/reference/README.md",
    ],
)
def test_whoever_begins_to_read_finds_the_glossary(index):
    assert "explanation/glossary.md" in (ROOT / index).read_text()


def here_documents(page: Path) -> list[str]:
    found = re.findall(r"<<'EOF'\n(.*?)^    EOF$", page.read_text(), re.MULTILINE | re.DOTALL)
    return ["\n".join(line[4:] for line in text.splitlines()) for text in found]


def test_the_tutorial_needs_no_file_that_pip_does_not_install():
    """What it gives to kubectl are the examples, which the scenarios run on a real Slurm."""
    page = ROOT / "docs" / "tutorial" / "first-steps.md"
    given = [yaml.safe_load(text) for text in here_documents(page)]
    assert given == [
        yaml.safe_load((ROOT / "examples" / name).read_text())
        for name in ("hello.yaml", "job.yaml", "deployment.yaml")
    ]
    file = re.compile(r"^    .*(?:apply|create|delete) -f +(?!anything\.yaml|-)\S+", re.MULTILINE)
    assert [file.findall(text) for text in (page.read_text(), README.read_text())] == [[], []]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def anchors(page: Path) -> set[str]:
    """What its headings are called in links, as GitHub does it."""
    headings = re.findall(r"^#+ +(.+)$", page.read_text(), re.MULTILINE)
    words = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", word).replace(" ", "-") for word in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_into_a_page_finds_its_heading(page):
    links = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text())
    targets = [(page.parent / path if path else page, anchor) for path, anchor in links]
    assert [link for link in targets if link[1] not in anchors(link[0])] == []


def test_every_promise_of_security_names_a_test_that_is_there():
    page = (ROOT / "SECURITY.md").read_text()
    promised = page.split("## What is promised")[1].split("## What is not promised")[0]
    rows = [row.split("|")[1:-1] for row in promised.splitlines() if row.startswith("| ")]
    promises = [row for row in rows if row[0].strip() != "promise"]
    assert len(promises) > 30
    for promise, tests in promises:
        named = re.findall(r"`(\w+)`", tests)
        files = re.findall(r"\]\((tests/[^)]+\.py)\)", tests)
        text = "\n".join((ROOT / path).read_text() for path in files)
        assert files, f"{promise} names no test"
        assert [name for name in named if f"def {name}(" not in text] == [], promise


def settings_of(struct: type[msgspec.Struct], prefix: str = "") -> list[str]:
    names = []
    for field in msgspec.structs.fields(struct):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            names += [f"## {field.name}", *settings_of(field.type)]
        else:
            names.append(f"`{field.name}`")
    return names


def test_every_setting_is_in_the_reference():
    page = (REFERENCE / "configuration.md").read_text()
    assert [name for name in settings_of(Settings) if name not in page] == []


def test_every_example_of_a_configuration_is_one():
    for page in PAGES:
        for block in re.findall(r"\n\n((?:    .*\n|\n)+)", page.read_text()):
            text = "\n".join(line[4:] for line in block.splitlines())
            if re.match(r"(slurm|images|agent):\n", text):
                msgspec.convert(yaml.safe_load(text), Settings)


@pytest.mark.parametrize(
    "name",
    [
        wellknown.FLAGS,
        wellknown.JOB_ID,
        wellknown.NODE_LIST,
        wellknown.END_TIME,
        wellknown.EXPIRING,
        wellknown.REPLACE,
        wellknown.ON_TIMEOUT,
        wellknown.RESTART_COUNT,
        wellknown.MAX_TIME,
        wellknown.MIRROR_QUOTA,
        wellknown.GRES_PREFIX,
        wellknown.LICENSE_PREFIX,
        wellknown.GPU_TYPE_LABEL_PREFIX,
        wellknown.SWITCH_LABEL_PREFIX,
        wellknown.RUNTIME_ANNOTATION,
        wellknown.PARTITION_LABEL,
        wellknown.FEATURE_LABEL_PREFIX,
        wellknown.ENGINE_LABEL,
        *wellknown.FLAGS_ALIASES,
        *wellknown.MPI_FLAGS_ALIASES,
        *wellknown.OPTION_ALIAS_PREFIXES,
    ],
)
def test_every_annotation_and_label_is_in_the_reference(name):
    assert name in (REFERENCE / "annotations.md").read_text()


def test_every_file_of_a_home_is_in_the_reference():
    page = (REFERENCE / "files.md").read_text()
    with tarfile.open(SAVED_HOME) as tar:
        names = [Path(name) for name in tar.getnames()]
    of_home = {name.parts[0] for name in names if name.parts[0] not in {"run", "pods"}}
    of_run = {"/".join(name.parts[:2]) for name in names if name.parts[0] == "run"}
    of_pods = {name.parts[2] for name in names if name.parts[0] == "pods" and len(name.parts) > 2}
    known = {*of_home, *of_run, *of_pods} - {"run"}
    assert len(known) > 20
    assert [name for name in sorted(known) if not re.search(rf"`{name}[`/]", page)] == []


def test_every_path_of_a_home_is_in_the_reference():
    page = (REFERENCE / "files.md").read_text()
    paths = Paths(Path("/home"))
    properties = [name for name, kind in vars(Paths).items() if isinstance(kind, property)]
    named = [str(getattr(paths, name).relative_to("/home")) for name in properties]
    assert len(named) > 15
    assert [name for name in named if not re.search(rf"`{name}[`/]", page)] == []


@pytest.mark.parametrize("name", [wellknown.ALLOCATED, wellknown.ENGINE_REACHABLE])
def test_every_condition_is_in_the_reference(name):
    assert name in (REFERENCE / "conditions.md").read_text()


def test_every_command_and_flag_is_in_the_reference():
    page = (REFERENCE / "commands.md").read_text()
    context = click.Context(orlop)
    for name in (name for name, entry in COMMANDS.items() if entry.help):
        assert f"## orlop {name}\n" in page
        command = orlop.get_command(context, name)
        assert command is not None
        flags = [opt for param in command.params for opt in param.opts if opt.startswith("--")]
        assert [flag for flag in flags if flag not in page] == []
    assert [name for name in slurm.commands if f"kubectl slurm {name}" not in page] == []


def test_no_two_decisions_have_one_number():
    names = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [int(name[:4]) for name in names]
    assert len(set(numbers)) == len(numbers), names


def test_every_example_says_how_to_use_it():
    for path in (ROOT / "examples").glob("*.yaml"):
        assert path.read_text().startswith("# ")
        assert f"kubectl apply -f {path.name}" in path.read_text()


def test_the_page_of_pod_fields_says_what_the_kubelet_does():
    assert pod_fields.PAGE.read_text() == pod_fields.page(), "python -m tools.pod_fields writes it"
