"""What users copy: each example runs as it stands, in a process of its own, and needs nothing of this package."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

TINY_CLAP = """
import sys
from tokenizers import ByteLevelBPETokenizer
from transformers import ClapConfig, ClapFeatureExtractor, ClapModel, ClapProcessor, RobertaTokenizerFast

words = ByteLevelBPETokenizer()
words.train_from_iterator(["Does it rise?"], vocab_size=300, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
text = {"vocab_size": 300, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
sound = {"hidden_size": 64, "patch_embeds_hidden_size": 8, "depths": [1] * 4, "num_attention_heads": [1] * 4, "projection_dim": 16}
text |= {"max_position_embeddings": 130, "projection_dim": 16}
ClapModel(ClapConfig(text_config=text, audio_config=sound, projection_dim=16)).save_pretrained(sys.argv[1])
heard = ClapFeatureExtractor(truncation="rand_trunc")
ClapProcessor(heard, RobertaTokenizerFast(tokenizer_object=words._tokenizer)).save_pretrained(sys.argv[1])
"""
"""A model of some kilobytes with random weights, whose answers mean nothing."""


def run(home: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Python offline, with a cache of its own and without this package in its path."""
    environment = {**os.environ, "HF_HOME": str(home / "home"), "HF_HUB_OFFLINE": "1", "PYTHONPATH": ""}
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=home, env=environment, capture_output=True, text=True)


def needed(*packages: str) -> None:
    """Skip a test where a package isn't installed, saying which."""
    for package in packages:
        pytest.importorskip(package, reason=f"{package} isn't installed")


def test_examples_need_nothing_of_the_factory() -> None:
    """None imports `builder` or `evaluation`, and each says in its docstring how it's run."""
    paths = sorted(EXAMPLES.glob("*.py"))
    assert len(paths) == 4
    for path in paths:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in (alias.name for alias in node.names)]
        names += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not {name.split(".")[0] for name in names} & {"builder", "evaluation", "tests"}, path
        assert f"python examples/{path.name} vocalgrad" in (ast.get_docstring(tree) or ""), path


def test_decode_without_torch(audited: Path, tmp_path: Path) -> None:
    """A line for each clip, with its length and level."""
    done = run(tmp_path, EXAMPLES / "decode_without_torch.py", audited, "--config", "loudness")
    assert done.returncode == 0, done.stderr
    line = r"vg[0-9a-f]{20}  \d\.\d\d s  -\d\d\.\d dBFS  Does the loudness .*\? (increase|decrease)\n"
    assert re.fullmatch(f"({line}){{4}}", done.stdout), done.stdout


def test_plot_contours(audited: Path, tmp_path: Path) -> None:
    """A picture of one pair."""
    done = run(tmp_path, EXAMPLES / "plot_contours.py", audited, "loudness", "--to", "pair.png")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"pair\.png: pr[0-9a-f]+, noise, medium\n", done.stdout)
    assert (tmp_path / "pair.png").read_bytes().startswith(b"\x89PNG")


def test_torch_dataloader(audited: Path, tmp_path: Path) -> None:
    """Every clip of the split is in one batch, padded to the longest."""
    needed("torch")
    done = run(tmp_path, EXAMPLES / "torch_dataloader.py", audited, "--split", "test", "--batch", "3")
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^\((\d), (\d+)\) \[([\d, ]+)\] \[([01, ]+)\]$", done.stdout, re.M)
    assert [int(n_clips) for n_clips, *_ in found] == [3, 1]
    for n_clips, longest, lengths, directions in found:
        assert max(map(int, lengths.split(", "))) == int(longest)
        assert len(lengths.split(", ")) == len(directions.split(", ")) == int(n_clips)


def test_transformers_pipeline(audited: Path, tmp_path: Path) -> None:
    """Every clip is answered, by a model of random weights."""
    needed("torch", "transformers")
    made = run(tmp_path, "-c", TINY_CLAP, tmp_path / "clap")
    assert made.returncode == 0, made.stderr
    done = run(tmp_path, EXAMPLES / "transformers_pipeline.py", audited, tmp_path / "clap")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"loudness: \d of 4 right \(\d+%\)\n", done.stdout)


@pytest.mark.parametrize(("name", "package"), [("torch_dataloader", "torch"), ("transformers_pipeline", "transformers")])
def test_what_is_not_installed_is_said(name: str, package: str, tmp_path: Path) -> None:
    """One line with what to install, no traceback."""
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed")
    done = run(tmp_path, EXAMPLES / f"{name}.py", "vocalgrad")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf"{package} isn't installed: pip install [\w ]+\n", done.stderr)
