"""Computes with scipy and statsmodels what the tests compare with.

Reads a JSON list of cases [name, argument...] and writes the list of their results.
"""

import json
import math
import sys
import warnings
from fractions import Fraction

import numpy as np
from scipy import stats
from statsmodels.regression.linear_model import WLS
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.power import TTestPower
from statsmodels.stats.proportion import proportion_confint

warnings.filterwarnings("ignore")


def cluster_mean(tasks, level):
    """Mean over tasks: weighted least squares on a constant, with covariance robust to clusters."""
    rewards = np.concatenate([np.array(task, dtype=float) for task in tasks])
    groups = np.concatenate([[index] * len(task) for index, task in enumerate(tasks)])
    weights = np.concatenate([[1 / len(task)] * len(task) for task in tasks])
    # Without statsmodels' further factor (n - 1) / (n - 1), which is 1 for one parameter.
    fit = WLS(rewards, np.ones_like(rewards), weights=weights).fit(
        cov_type="cluster", cov_kwds={"groups": groups, "use_correction": True, "df_correction": True}, use_t=True
    )
    low, high = fit.conf_int(alpha=1 - level)[0]
    return [fit.params[0], fit.bse[0], low, high]


def paired(baseline, candidate, level):
    differences = [np.mean(b) - np.mean(a) for a, b in zip(baseline, candidate)]
    test = stats.ttest_rel([np.mean(b) for b in candidate], [np.mean(a) for a in baseline])
    interval = test.confidence_interval(level)
    return [np.mean(differences), stats.sem(differences), interval.low, interval.high, test.pvalue]


def passes(trials, solved, k):
    none = Fraction(math.comb(trials - solved, k), math.comb(trials, k))
    return [float(1 - none), float(Fraction(math.comb(solved, k), math.comb(trials, k)))]


FUNCTIONS = {
    "normal_tail": stats.norm.sf,
    "normal_quantile": stats.norm.isf,
    "student_tail": stats.t.sf,
    "student_quantile": stats.t.isf,
    "fair_coin_at_most": lambda successes, trials: stats.binom.cdf(successes, trials, 0.5),
    "t_test_power": lambda shift, freedom, significance: TTestPower().power(
        shift / math.sqrt(freedom + 1), freedom + 1, significance, df=freedom
    ),
    "t_test_size": lambda effect, significance, power: TTestPower().solve_power(
        effect_size=effect, alpha=significance, power=power
    ),
    "wilson": lambda successes, count, level: proportion_confint(successes, count, 1 - level, method="wilson"),
    "cluster_mean": cluster_mean,
    "paired": paired,
    "mcnemar": lambda better, worse: mcnemar([[0, better], [worse, 0]], exact=True).pvalue,
    "passes": passes,
}


def to_plain(result):
    return [float(part) for part in result] if isinstance(result, (list, tuple)) else [float(result)]


json.dump([to_plain(FUNCTIONS[name](*arguments)) for name, *arguments in json.load(sys.stdin)], sys.stdout)
