# SPDX-License-Identifier: Apache-2.0
"""Objectives, priors and supervision as names of `unbraid`, for type checkers: `make docs`."""

from unbraid.objectives.ada_gvae import AdaGVAE as AdaGVAE
from unbraid.objectives.ada_mlvae import AdaMLVAE as AdaMLVAE
from unbraid.objectives.ae import AE as AE
from unbraid.objectives.annealed_vae import AnnealedVAE as AnnealedVAE
from unbraid.objectives.beta_tcvae import BetaTCVAE as BetaTCVAE
from unbraid.objectives.beta_vae import BetaVAE as BetaVAE
from unbraid.objectives.control_vae import ControlVAE as ControlVAE
from unbraid.objectives.decomposition import Decomposition as Decomposition
from unbraid.objectives.dip_vae_i import DIPVAEI as DIPVAEI
from unbraid.objectives.dip_vae_ii import DIPVAEII as DIPVAEII
from unbraid.objectives.factor_vae import FactorVAE as FactorVAE
from unbraid.objectives.gvae import GVAE as GVAE
from unbraid.objectives.info_vae import InfoVAE as InfoVAE
from unbraid.objectives.iwae import IWAE as IWAE
from unbraid.objectives.mlvae import MLVAE as MLVAE
from unbraid.objectives.priors.anisotropic import Anisotropic as Anisotropic
from unbraid.objectives.priors.cross import Cross as Cross
from unbraid.objectives.priors.isotropic import Isotropic as Isotropic
from unbraid.objectives.priors.mixture import Mixture as Mixture
from unbraid.objectives.priors.sparse import Sparse as Sparse
from unbraid.objectives.priors.student_t import StudentT as StudentT
from unbraid.objectives.qlae import QLAE as QLAE
from unbraid.objectives.supervision.few_labels import FewLabels as FewLabels
from unbraid.objectives.supervision.pairs import Pairs as Pairs
from unbraid.objectives.vae import VAE as VAE
from unbraid.objectives.wae import WAE as WAE
