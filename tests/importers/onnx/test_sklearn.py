"""Pipelines of scikit-learn that skl2onnx writes: any number of rows, and scikit-learn's own answers."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import onnxruntime
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

pytestmark = pytest.mark.full

IRIS, CANCER, DIABETES = load_iris, load_breast_cancer, load_diabetes


def machines(kernel: str) -> SVC:
    """Return support vector machines with Platt's probabilities."""
    return SVC(kernel=kernel, probability=True, random_state=0)


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
    "probabilities of two classes": (CANCER, lambda: make_pipeline(MinMaxScaler(), PCA(5), machines("rbf"))),
    "probabilities of three classes": (IRIS, lambda: machines("poly")),
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


def machine(**changed: object) -> onnx.ModelProto:
    """Return a model of support vectors for two classes of three features, with probabilities."""
    random = np.random.default_rng(0)
    vectors = random.standard_normal((5, 3)).astype("float32")
    attributes = {
        "classlabels_ints": [3, 8],
        "coefficients": random.standard_normal(5).astype("float32"),
        "kernel_params": [0.5, 0.0, 3.0],
        "kernel_type": "RBF",
        "prob_a": [-2.0],
        "prob_b": [0.3],
        "rho": [0.1],
        "support_vectors": vectors.ravel(),
        "vectors_per_class": [2, 3],
    }
    node = helper.make_node(
        "SVMClassifier", ["x"], ["label", "probabilities"], domain="ai.onnx.ml", **attributes | changed
    )
    infos = [
        helper.make_tensor_value_info(name, kind, shape)
        for name, kind, shape in (("x", 1, ("n", 3)), ("label", 7, ("n",)), ("probabilities", 1, ("n", 2)))
    ]
    graph = helper.make_graph([node], "svm", infos[:1], infos[1:])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.mark.parametrize("transformation", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_probabilities_by_support_vectors_are_those_of_onnxruntime(transformation: str) -> None:
    proto = machine(post_transform=transformation)
    rows = np.random.default_rng(1).standard_normal((9, 3)).astype("float32") * 3
    rows[3, 1] = np.nan
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": rows})
    label, probabilities = nnmagic.from_onnx(proto)(rows)
    np.testing.assert_array_equal(label, wanted[0])
    np.testing.assert_allclose(probabilities, wanted[1], rtol=1e-5)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"prob_a": [-2.0, 1.0]}, "prob_a and prob_b must have a number for each pair of classes"),
        ({"classlabels_ints": [3], "vectors_per_class": [5]}, "a model of one class is not supported"),
    ],
)
def test_models_of_support_vectors_that_are_refused(changed: dict[str, list[float]], message: str) -> None:
    with pytest.raises(nnmagic.RelayError, match=f"SVMClassifier: {message}"):
        nnmagic.from_onnx(machine(**changed))


def test_the_error_for_maps_of_probabilities_says_how_to_write_the_model_without_them() -> None:
    rows, classes = IRIS(return_X_y=True)
    with pytest.raises(nnmagic.RelayError, match=r"ZipMap.*sequence of maps") as error:
        imported(GaussianNB().fit(rows, classes), rows.astype("float32"))
    assert 'options={"zipmap": False}' in str(error.value.diagnostics[0].hint)
