"""Validates a job directory with Harbor's own models. Prints each defect on a line; none means that it is valid.

Usage: target/harbor/bin/python tests/harbor/validate.py JOB_DIRECTORY
"""

import json
import math
import sys
from datetime import datetime
from pathlib import Path

from harbor.models.job.config import JobConfig
from harbor.models.job.lock import JobLock, TrialLock
from harbor.models.job.result import JobResult, JobStats
from harbor.models.trial.artifact_manifest import ArtifactManifest
from harbor.models.trial.config import TrialConfig
from harbor.models.trial.paths import TrialPaths
from harbor.models.trial.result import TrialResult

DEFECTS = []


def report(where, text):
    DEFECTS.append(f"{where}: {text}")


def is_same(ours, theirs):
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return ours is theirs
    if isinstance(ours, (int, float)) and isinstance(theirs, (int, float)):
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-12)
    if ours == theirs:
        return True
    try:
        return datetime.fromisoformat(ours) == datetime.fromisoformat(theirs)
    except (TypeError, ValueError):
        return False


def normalize_key(key):
    """Rewards are keys, which Python writes with other digits: 1e-07."""
    try:
        return repr(float(key))
    except ValueError:
        return key


def compare(where, ours, theirs):
    """Reports what a model changed or did not know: it ignores unknown keys without a word."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        theirs = {normalize_key(key): value for key, value in theirs.items()}
        for key, value in ours.items():
            key = normalize_key(key)
            if key not in theirs:
                report(where, f"Harbor has no key {key!r}")
            else:
                compare(f"{where}.{key}", value, theirs[key])
    elif isinstance(ours, list) and isinstance(theirs, list):
        if len(ours) != len(theirs):
            report(where, f"{len(ours)} elements became {len(theirs)}")
        for at, (a, b) in enumerate(zip(ours, theirs)):
            compare(f"{where}[{at}]", a, b)
    elif not is_same(ours, theirs):
        report(where, f"{ours!r} became {theirs!r}")


def load(model, path):
    text = path.read_text()
    loaded = model.model_validate_json(text)
    compare(path.name, json.loads(text), json.loads(loaded.model_dump_json()))
    return loaded


def validate_trial(folder, job_config, locks):
    paths = TrialPaths(folder)
    config = load(TrialConfig, paths.config_path)
    lock = load(TrialLock, paths.lock_path)
    result = load(TrialResult, paths.result_path)
    manifest = ArtifactManifest(entries=json.loads(paths.artifacts_manifest_path.read_text()))
    for entry in manifest.entries:
        if entry.status == "ok" and not (folder / entry.destination).exists():
            report(folder.name, f"{entry.destination} is missing")
    if not (config.trial_name == result.trial_name == folder.name):
        report(folder.name, "the folder has not the trial's name")
    if result.config != config:
        report(folder.name, "result.json has another configuration than config.json")
    if result.trial_uri != folder.resolve().as_uri():
        report(folder.name, f"trial_uri is {result.trial_uri}, not {folder.resolve().as_uri()}")
    if lock not in locks:
        report(folder.name, "the job's lock has no such trial")
    if config.agent not in job_config.agents or config.task not in job_config.tasks:
        report(folder.name, "the job's configuration has no such agent or task")
    if (result.exception_info is not None) != paths.exception_message_path.exists():
        report(folder.name, "exception.txt and exception_info disagree")
    for path in (paths.agent_dir, paths.verifier_dir, paths.log_path):
        if not path.exists():
            report(folder.name, f"{path.name} is missing")
    return result


def main():
    job = Path(sys.argv[1])
    config = load(JobConfig, job / "config.json")
    lock = load(JobLock, job / "lock.json")
    written = load(JobResult, job / "result.json")
    folders = sorted(path for path in job.iterdir() if path.is_dir())
    trials = [validate_trial(folder, config, lock.trials) for folder in folders]
    if len(lock.trials) != len(trials):
        report("lock.json", f"{len(lock.trials)} trials, {len(trials)} folders")
    counted = JobStats.from_trial_results(
        trials, n_total_trials=written.n_total_trials, n_retries=written.stats.n_retries
    )
    expected = json.loads(counted.model_dump_json())
    ours = json.loads(written.stats.model_dump_json())
    for side in (ours, expected):
        for stats in side["evals"].values():
            # Harbor's count what was not judged as 0; ours leave it out.
            stats.pop("metrics")
            stats.pop("pass_at_k")
            groups = [stats["exception_stats"], *stats["reward_stats"].values()]
            for names in (names for group in groups for names in group.values()):
                names.sort()
    if expected["cost_usd"] is None:
        expected |= {key: 0 for key in ("n_input_tokens", "n_cache_tokens", "n_output_tokens", "cost_usd")}
    compare("stats", ours, expected)
    compare("stats of Harbor", expected, ours)
    print("\n".join(DEFECTS))
    sys.exit(1 if DEFECTS else 0)


main()
