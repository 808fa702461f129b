# SPDX-License-Identifier: Apache-2.0
"""Scores of codes against factors: pure functions of arrays that return their evidence.

`codes` are float `(n, latents)`, `factors` whole numbers `(n, factors)`, NumPy or torch; codes with
a leading member axis are scored one by one in one call (`Members`). A function says by its
attributes `label`, `needs`, `family`, `citation` and `result` what it is called, what to pass, what
it is for, where it comes from and what it returns. `check_codes`, `check_codes_factors`,
`check_split` and `check_codes_grid` read what people pass, for metrics of other packages too.
"""

from __future__ import annotations

from unbraid.core.registry import Registry, home
from unbraid.metrics._arrays import check_codes as check_codes
from unbraid.metrics._arrays import check_codes_factors as check_codes_factors
from unbraid.metrics._arrays import check_codes_grid as check_codes_grid
from unbraid.metrics._arrays import check_split as check_split
from unbraid.metrics._describe import Members as Members
from unbraid.metrics._describe import Metric as Metric
from unbraid.metrics._describe import describe as describe

# Every metric: one import of its function and its result, in the order of the tables. The modules
# need only NumPy; predictors are imported when called. A metric has the name of its file, and the
# import binds the function over the module.
# isort: off
from unbraid.metrics.mig import MIG as MIG, mig as mig
from unbraid.metrics.mig_sup import MIGSup as MIGSup, mig_sup as mig_sup
from unbraid.metrics.jemmig import JEMMIG as JEMMIG, jemmig as jemmig
from unbraid.metrics.dcimig import DCIMIG as DCIMIG, dcimig as dcimig
from unbraid.metrics.dci import DCI as DCI, dci as dci
from unbraid.metrics.dci_es import DCIES as DCIES, dci_es as dci_es
from unbraid.metrics.sap import SAP as SAP, sap as sap
from unbraid.metrics.modularity import Modularity as Modularity, modularity as modularity
from unbraid.metrics.explicitness import Explicitness as Explicitness, explicitness as explicitness
from unbraid.metrics.infomec import InfoMEC as InfoMEC, infomec as infomec
from unbraid.metrics.beta_vae_score import (
    BetaVAEScore as BetaVAEScore,
    beta_vae_score as beta_vae_score,
    beta_vae_score_of_pairs as beta_vae_score_of_pairs,
)
from unbraid.metrics.factor_vae_score import (
    FactorVAEScore as FactorVAEScore,
    factor_vae_score as factor_vae_score,
    factor_vae_score_of_batches as factor_vae_score_of_batches,
)
from unbraid.metrics.kim_mnih_score import (
    KimMnihScore as KimMnihScore,
    kim_mnih_score as kim_mnih_score,
)
from unbraid.metrics.irs import IRS as IRS, irs as irs
from unbraid.metrics.unified_scores import (
    UnifiedScores as UnifiedScores,
    unified_scores as unified_scores,
)
from unbraid.metrics.total_correlation import (
    TotalCorrelation as TotalCorrelation,
    total_correlation as total_correlation,
)
from unbraid.metrics.wasserstein_correlation import (
    WassersteinCorrelation as WassersteinCorrelation,
    wasserstein_correlation as wasserstein_correlation,
)
from unbraid.metrics.pairwise_information import (
    PairwiseInformation as PairwiseInformation,
    pairwise_information as pairwise_information,
)
from unbraid.metrics.udr import UDR as UDR, udr as udr
from unbraid.metrics.active_units import ActiveUnits as ActiveUnits, active_units as active_units
from unbraid.metrics.posterior_overlap import (
    PosteriorOverlap as PosteriorOverlap,
    posterior_overlap as posterior_overlap,
)
from unbraid.metrics.elbo import ELBO as ELBO, elbo as elbo
from unbraid.metrics.hoyer import Hoyer as Hoyer, hoyer as hoyer
from unbraid.metrics.class_sparsity import (
    ClassSparsity as ClassSparsity,
    class_sparsity as class_sparsity,
)
from unbraid.metrics.downstream import Downstream as Downstream, downstream as downstream
from unbraid.metrics.downstream_reduced import (
    DownstreamReduced as DownstreamReduced,
    downstream_reduced as downstream_reduced,
)
from unbraid.metrics.downstream_strong import (
    DownstreamStrong as DownstreamStrong,
    downstream_strong as downstream_strong,
)
from unbraid.metrics.clustering import Clustering as Clustering, clustering as clustering
from unbraid.metrics.few_shot import FewShot as FewShot, few_shot as few_shot
from unbraid.metrics.fairness import Fairness as Fairness, fairness as fairness
# isort: on

METRICS = Registry(
    "metric",
    "unbraid.metrics",
    {name: home(thing) for name, thing in list(globals().items()) if hasattr(thing, "needs")},
)
