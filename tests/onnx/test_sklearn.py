"""Pipelines of scikit-learn that skl2onnx writes: any number of rows, and scikit-learn's own answers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import skl2onnx
from onnx import helper
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC, SVR

import nnmagic

IRIS, CANCER, DIABETES = load_iris, load_breast_cancer, load_diabetes
CLASSIFIERS = {
    "scaler, logistic regression": (IRIS, lambda: make_pipeline(StandardScaler(), LogisticRegression())),
    "imputer, trees": (
        CANCER,
        lambda: make_pipeline(SimpleImputer(), GradientBoostingClassifier(n_estimators=5, random_state=0)),
    ),
    "linear by steps": (IRIS, lambda: make_pipeline(StandardScaler(), SGDClassifier(random_state=0))),
    "naive Bayes": (IRIS, GaussianNB),
    "network": (IRIS, lambda: make_pipeline(StandardScaler(), MLPClassifier(max_iter=20, random_state=0))),
    "support vectors": (IRIS, SVC),
    "support vectors of two classes": (CANCER, lambda: make_pipeline(MinMaxScaler(), PCA(5), SVC())),
}
REGRESSORS = {
    "scaler, PCA, linear": lambda: make_pipeline(StandardScaler(), PCA(4), LinearRegression()),
    "forest": lambda: RandomForestRegressor(5, random_state=0),
    "support vectors": lambda: make_pipeline(StandardScaler(), SVR(kernel="poly")),
    "neighbours": lambda: make_pipeline(StandardScaler(), KNeighborsRegressor(3)),
}


def imported(estimator: object, rows: np.ndarray, **options: object) -> nnmagic.CompiledFunction:
    chosen = {id(estimator): options} if options else None
    opsets = {"": 18, "ai.onnx.ml": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # the converter reads attributes that will go
        model = skl2onnx.to_onnx(estimator, rows[:1], options=chosen, target_opset=opsets)
    return nnmagic.from_onnx(model)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_gives_scikit_learns_classes_and_scores(name: str) -> None:
    data, make = CLASSIFIERS[name]
    rows, classes = data(return_X_y=True)
    rows = rows.astype("float32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # training stops early on purpose
        estimator = make().fit(rows, classes)
    function = imported(estimator, rows, zipmap=False)
    for count in (len(rows), 1, 7):
        found, scores = function(rows[:count])
        np.testing.assert_array_equal(found, estimator.predict(rows[:count]))
        if hasattr(estimator, "predict_proba"):
            np.testing.assert_allclose(scores, estimator.predict_proba(rows[:count]), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regressor_gives_scikit_learns_numbers(name: str) -> None:
    rows, targets = DIABETES(return_X_y=True)
    rows = rows.astype("float32")
    estimator = REGRESSORS[name]().fit(rows, targets)
    function = imported(estimator, rows)
    for count in (len(rows), 1, 7):
        found = function(rows[:count])[:, 0]
        np.testing.assert_allclose(found, estimator.predict(rows[:count]), rtol=1e-3, atol=1e-3)


def test_probabilities_by_support_vectors_are_refused() -> None:
    random = np.random.default_rng(0)
    vectors = random.standard_normal((5, 3)).astype("float32")
    node = helper.make_node(
        "SVMClassifier",
        ["x"],
        ["label", "probabilities"],
        domain="ai.onnx.ml",
        classlabels_ints=[3, 8],
        coefficients=random.standard_normal(5).astype("float32"),
        kernel_params=[0.5, 0.0, 3.0],
        kernel_type="RBF",
        prob_a=[-2.0],
        prob_b=[0.3],
        rho=[0.1],
        support_vectors=vectors.ravel(),
        vectors_per_class=[2, 3],
    )
    infos = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (("x", 1, ("n", 3)), ("label", 7, ("n",)), ("probabilities", 1, ("n", 2)))
    ]
    graph = helper.make_graph([node], "svm", infos[:1], infos[1:])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    with pytest.raises(nnmagic.RelayError, match="SVMClassifier: probabilities are not supported"):
        nnmagic.from_onnx(model)
