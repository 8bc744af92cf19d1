# The names of cells for type checkers and editors, written by tools/numpy_stub.py from the language's tables.
# mypy: disable-error-code="misc, override, valid-type, assignment"
from abc import ABCMeta
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar

import numpy as _np
from numpy import linalg as linalg

from nnmagic.functions.typed import TypedFunction

_P = ParamSpec("_P")
_R = TypeVar("_R")

class _Array(_np.ndarray[Any, _np.dtype[Any]], int):
    """An array, or a number where its rank is 0."""

    def abs(self) -> Array:
        """Compute the absolute value."""
    def absolute(self) -> Array:
        """Compute the absolute value."""
    def acos(self) -> Array:
        """Compute the inverse cosine, in radians."""
    def acosh(self) -> Array:
        """Compute the inverse hyperbolic cosine."""
    def adaptive_avg_pool1d(self, output_size: Any = ..., *, layout: Any = ..., out_layout: Any = ...) -> Array:
        """Return the mean of each window; output_size windows per axis."""
    def adaptive_avg_pool2d(self, output_size: Any = ..., *, layout: Any = ..., out_layout: Any = ...) -> Array:
        """Return the mean of each window; output_size windows per axis."""
    def adaptive_avg_pool3d(self, output_size: Any = ..., *, layout: Any = ..., out_layout: Any = ...) -> Array:
        """Return the mean of each window; output_size windows per axis."""
    def adaptive_max_pool1d(self, output_size: Any = ..., *, layout: Any = ..., out_layout: Any = ...) -> Array:
        """Return the largest element of each window; output_size windows per axis."""
    def adaptive_max_pool2d(self, output_size: Any = ..., *, layout: Any = ..., out_layout: Any = ...) -> Array:
        """Return the largest element of each window; output_size windows per axis."""
    def adaptive_max_pool3d(self, output_size: Any = ..., *, layout: Any = ..., out_layout: Any = ...) -> Array:
        """Return the largest element of each window; output_size windows per axis."""
    def add(self, x2: Any) -> Array:
        """Compute x1 + x2."""
    def all(self, axis: Any = ..., *, keepdims: Any = ..., where: Any = ..., exclude: Any = ...) -> Array:
        """Test whether all elements are true (nonzero)."""
    def allclose(self, b: Any, rtol: Any = ..., atol: Any = ..., equal_nan: Any = ...) -> Array:
        """Test whether all elements are nearly equal, as a single bool."""
    def amax(self, axis: Any = ..., *more: Any, keepdims: Any = ..., initial: Any = ..., where: Any = ..., exclude: Any = ...) -> Array:
        """Return the largest element along axes; NaN if there is one."""
    def amin(self, axis: Any = ..., *more: Any, keepdims: Any = ..., initial: Any = ..., where: Any = ..., exclude: Any = ...) -> Array:
        """Return the smallest element along axes; NaN if there is one."""
    def aminmax(self, *, axis: Any = ..., keepdims: Any = ...) -> Array:
        """Return (min, max)."""
    def any(self, axis: Any = ..., *, keepdims: Any = ..., where: Any = ..., exclude: Any = ...) -> Array:
        """Test whether any element is true (nonzero)."""
    def arccos(self) -> Array:
        """Compute the inverse cosine, in radians."""
    def arccosh(self) -> Array:
        """Compute the inverse hyperbolic cosine."""
    def arcsin(self) -> Array:
        """Compute the inverse sine, in radians."""
    def arcsinh(self) -> Array:
        """Compute the inverse hyperbolic sine."""
    def arctan(self) -> Array:
        """Compute the inverse tangent, in radians."""
    def arctan2(self, x2: Any) -> Array:
        """Compute the angle of the point (x2, x1)."""
    def arctanh(self) -> Array:
        """Compute the inverse hyperbolic tangent."""
    def argmax(self, axis: Any = ..., *, keepdims: Any = ..., select_last_index: Any = ...) -> Array:
        """Return the index of the largest element, i64; of the first NaN if there is one."""
    def argmin(self, axis: Any = ..., *, keepdims: Any = ..., select_last_index: Any = ...) -> Array:
        """Return the index of the smallest element, i64; of the first NaN if there is one."""
    def argpartition(self, kth: Any, axis: Any = ...) -> Array:
        """Return indices of the elements, of which those at `kth` are where sorting would put them, i64."""
    def argsort(self, axis: Any = ..., *, is_ascend: Any = ..., dtype: Any = ..., kind: Any = ..., stable: Any = ..., descending: Any = ...) -> Array:
        """Return the indices that sort the tensor, i64; stable."""
    def argwhere(self) -> Array:
        """Return the indices of nonzero elements: one row each, i64, `?` rows."""
    def around(self, decimals: Any = ...) -> Array:
        """Round to the given number of decimals, halves to even."""
    def array_equal(self, a2: Any, equal_nan: Any = ...) -> Array:
        """Test whether two tensors are equal, as a single bool."""
    def array_split(self, indices_or_sections: Any, axis: Any = ...) -> Array:
        """Split into parts of equal size or at the given indices; return a tuple."""
    def asin(self) -> Array:
        """Compute the inverse sine, in radians."""
    def asinh(self) -> Array:
        """Compute the inverse hyperbolic sine."""
    def astype(self, dtype: Any, *, copy: Any = ...) -> Array:
        """Convert to another dtype."""
    def atan(self) -> Array:
        """Compute the inverse tangent, in radians."""
    def atan2(self, x2: Any) -> Array:
        """Compute the angle of the point (x2, x1)."""
    def atanh(self) -> Array:
        """Compute the inverse hyperbolic tangent."""
    def average(self, axis: Any = ..., weights: Any = ..., *, keepdims: Any = ...) -> Array:
        """Compute the weighted mean."""
    def avg_pool1d(self, kernel_size: Any = ..., strides: Any = ..., padding: Any = ..., ceil_mode: Any = ..., count_include_pad: Any = ..., *, pool_size: Any = ..., layout: Any = ..., out_layout: Any = ..., dilation: Any = ..., stride: Any = ...) -> Array:
        """Return the mean of each window."""
    def avg_pool2d(self, kernel_size: Any = ..., strides: Any = ..., padding: Any = ..., ceil_mode: Any = ..., count_include_pad: Any = ..., *, pool_size: Any = ..., layout: Any = ..., out_layout: Any = ..., dilation: Any = ..., stride: Any = ...) -> Array:
        """Return the mean of each window."""
    def avg_pool3d(self, kernel_size: Any = ..., strides: Any = ..., padding: Any = ..., ceil_mode: Any = ..., count_include_pad: Any = ..., *, pool_size: Any = ..., layout: Any = ..., out_layout: Any = ..., dilation: Any = ..., stride: Any = ...) -> Array:
        """Return the mean of each window."""
    def batch_norm(self, running_mean: Any = ..., running_var: Any = ..., weight: Any = ..., bias: Any = ..., training: Any = ..., momentum: Any = ..., eps: Any = ..., *, gamma: Any = ..., beta: Any = ..., moving_mean: Any = ..., moving_var: Any = ..., axis: Any = ..., epsilon: Any = ..., center: Any = ..., scale: Any = ...) -> Array:
        """Normalize by the running mean and variance; in training by the batch's, giving (y, mean, var)."""
    def binary_cross_entropy(self, target: Any, weight: Any = ..., *, reduction: Any = ...) -> Array:
        """Compute the binary cross entropy of probabilities."""
    def binary_cross_entropy_with_logits(self, target: Any, weight: Any = ..., *, reduction: Any = ..., pos_weight: Any = ...) -> Array:
        """Compute the binary cross entropy of logits, numerically stable."""
    def bitwise_and(self, x2: Any) -> Array:
        """Compute x1 & x2."""
    def bitwise_invert(self) -> Array:
        """Compute ~x."""
    def bitwise_left_shift(self, x2: Any) -> Array:
        """Compute x1 << x2."""
    def bitwise_not(self) -> Array:
        """Compute ~x."""
    def bitwise_or(self, x2: Any) -> Array:
        """Compute x1 | x2."""
    def bitwise_right_shift(self, x2: Any) -> Array:
        """Compute x1 >> x2."""
    def bitwise_xor(self, x2: Any) -> Array:
        """Compute x1 ^ x2."""
    def bmm(self, b: Any) -> Array:
        """Compute a @ b."""
    def bool(self) -> Array:
        """Return whether each element is not 0."""
    def broadcast_to(self, *shape: Any) -> Array:
        """Broadcast to a shape."""
    def cbrt(self) -> Array:
        """Compute the cube root."""
    def ceil(self) -> Array:
        """Round up."""
    def celu(self, alpha: Any = ...) -> Array:
        """Return x, or alpha * (exp(x / alpha) - 1) where x is negative."""
    def choose(self, choices: Any) -> Array:
        """Choose between tensors by index."""
    def chunk(self, chunks: Any, dim: Any = ...) -> Array:
        """Split into equal parts; returns a tuple."""
    def clamp(self, a_min: Any = ..., a_max: Any = ...) -> Array:
        """Limit each element to a range; a bound may be None or a tensor."""
    def clip(self, a_min: Any = ..., a_max: Any = ..., *, min: Any = ..., max: Any = ...) -> Array:
        """Limit each element to a range; a bound may be None or a tensor."""
    def clone(self) -> Array:
        """Return a copy, whose elements may be assigned."""
    def compress(self, condition: Any, axis: Any = ...) -> Array:
        """Return the elements, or the slices along an axis, where a condition is true."""
    def conj(self) -> Array:
        """Compute the complex conjugate."""
    def conjugate(self) -> Array:
        """Compute the complex conjugate."""
    def contiguous(self) -> Array:
        """Return the tensor itself."""
    def conv1d(self, weight: Any, bias: Any = ..., strides: Any = ..., padding: Any = ..., dilation: Any = ..., groups: Any = ..., channels: Any = ..., kernel_size: Any = ..., data_layout: Any = ..., kernel_layout: Any = ..., out_layout: Any = ..., out_dtype: Any = ..., *, stride: Any = ...) -> Array:
        """Call nn.conv1d, followed by nn.bias_add if a bias is given."""
    def conv2d(self, weight: Any, bias: Any = ..., strides: Any = ..., padding: Any = ..., dilation: Any = ..., groups: Any = ..., channels: Any = ..., kernel_size: Any = ..., data_layout: Any = ..., kernel_layout: Any = ..., out_layout: Any = ..., out_dtype: Any = ..., *, stride: Any = ...) -> Array:
        """Call nn.conv2d, followed by nn.bias_add if a bias is given."""
    def conv3d(self, weight: Any, bias: Any = ..., strides: Any = ..., padding: Any = ..., dilation: Any = ..., groups: Any = ..., channels: Any = ..., kernel_size: Any = ..., data_layout: Any = ..., kernel_layout: Any = ..., out_layout: Any = ..., out_dtype: Any = ..., *, stride: Any = ...) -> Array:
        """Call nn.conv3d, followed by nn.bias_add if a bias is given."""
    def conv_transpose1d(self, weight: Any, bias: Any = ..., strides: Any = ..., padding: Any = ..., output_padding: Any = ..., groups: Any = ..., dilation: Any = ..., *, stride: Any = ...) -> Array:
        """Call nn.conv1d_transpose, with PyTorch's weight layout: (in, out / groups, ...)."""
    def conv_transpose2d(self, weight: Any, bias: Any = ..., strides: Any = ..., padding: Any = ..., output_padding: Any = ..., groups: Any = ..., dilation: Any = ..., *, stride: Any = ...) -> Array:
        """Call nn.conv2d_transpose, with PyTorch's weight layout: (in, out / groups, ...)."""
    def conv_transpose3d(self, weight: Any, bias: Any = ..., strides: Any = ..., padding: Any = ..., output_padding: Any = ..., groups: Any = ..., dilation: Any = ..., *, stride: Any = ...) -> Array:
        """Call nn.conv3d_transpose, with PyTorch's weight layout: (in, out / groups, ...)."""
    def copy(self) -> Array:
        """Return a copy, whose elements may be assigned."""
    def copysign(self, x2: Any) -> Array:
        """Return x1 with the sign of x2."""
    def cos(self) -> Array:
        """Compute the cosine of angles in radians."""
    def cosh(self) -> Array:
        """Compute the hyperbolic cosine."""
    def cosine_similarity(self, x2: Any, axis: Any = ..., eps: Any = ..., *, dim: Any = ...) -> Array:
        """Compute the cosine similarity along an axis, by default 1."""
    def count_nonzero(self, axis: Any = ..., *, keepdims: Any = ...) -> Array:
        """Count the nonzero elements, i64."""
    def cpu(self) -> Array:
        """Return the tensor itself."""
    def cross(self, b: Any, *, axis: Any = ...) -> Array:
        """Compute the cross product of vectors with three components."""
    def cross_entropy(self, target: Any, weight: Any = ..., *, ignore_index: Any = ..., reduction: Any = ..., label_smoothing: Any = ..., predictions: Any = ..., targets: Any = ...) -> Array:
        """Compute the cross entropy of logits; targets are classes or probabilities."""
    def cummax(self, dim: Any) -> Array:
        """Return the maxima so far, and their indices."""
    def cummin(self, dim: Any) -> Array:
        """Return the minima so far, and their indices."""
    def cumprod(self, axis: Any = ..., dtype: Any = ..., *, exclusive: Any = ...) -> Array:
        """Compute the cumulative product along an axis; without an axis, of the flattened tensor."""
    def cumsum(self, axis: Any = ..., dtype: Any = ..., *, exclusive: Any = ...) -> Array:
        """Compute the cumulative sum along an axis; without an axis, of the flattened tensor."""
    def cumulative_prod(self, *, axis: Any = ..., dtype: Any = ..., include_initial: Any = ...) -> Array:
        """Compute the cumulative product along an axis; `include_initial` puts that of nothing first."""
    def cumulative_sum(self, *, axis: Any = ..., dtype: Any = ..., include_initial: Any = ...) -> Array:
        """Compute the cumulative sum along an axis; `include_initial` puts that of nothing first."""
    def deg2rad(self) -> Array:
        """Convert degrees to radians."""
    def degrees(self) -> Array:
        """Convert radians to degrees."""
    def detach(self) -> Array:
        """Return x; no gradient flows through it."""
    def diag(self, k: Any = ...) -> Array:
        """Return the diagonal of a matrix, or the diagonal matrix of a vector."""
    def diagonal(self, offset: Any = ..., axis1: Any = ..., axis2: Any = ...) -> Array:
        """Return a diagonal."""
    def diff(self, n: Any = ..., axis: Any = ..., prepend: Any = ..., append: Any = ...) -> Array:
        """Return the differences of adjacent elements."""
    def digitize(self, bins: Any, right: Any = ...) -> Array:
        """Return the index of the bin that each number falls into; bins must increase."""
    def dim(self) -> Array:
        """Return the number of dimensions."""
    def div(self, x2: Any) -> Array:
        """Compute x1 / x2; f64 for integers and bools."""
    def divide(self, x2: Any) -> Array:
        """Compute x1 / x2; f64 for integers and bools."""
    def divmod(self, x2: Any) -> Array:
        """Compute (x1 // x2, x1 % x2)."""
    def dot(self, b: Any) -> Array:
        """Compute the product over the last axis of a and the second to last of b."""
    def double(self) -> Array:
        """Convert to float64."""
    def dropout(self, p: Any = ..., training: Any = ..., *, key: Any = ..., rate: Any = ...) -> Array:
        """Return the tensor itself; with a key, zeros at random places, and the others divided by 1 - p."""
    def dsplit(self, indices_or_sections: Any) -> Array:
        """Split into parts of equal size or at the given indices; return a tuple."""
    def elu(self, alpha: Any = ...) -> Array:
        """Return x, or alpha * (exp(x) - 1) where x is negative."""
    def empty_like(self, dtype: Any = ...) -> Array:
        """Return a tensor of zeros, with the shape and dtype of another."""
    def equal(self, x2: Any) -> Array:
        """Compute x1 == x2."""
    def erf(self) -> Array:
        """Compute the error function."""
    def erfc(self) -> Array:
        """Compute 1 - erf(x)."""
    def exp(self) -> Array:
        """Compute e to the power of each element."""
    def exp2(self) -> Array:
        """Compute 2 to the power of each element."""
    def expand(self, *size: Any) -> Array:
        """Broadcast to sizes; -1 keeps one."""
    def expand_dims(self, axis: Any, *, num_newaxis: Any = ...) -> Array:
        """Insert axes of size 1."""
    def expm1(self) -> Array:
        """Compute exp(x) - 1, accurate near 0."""
    def fabs(self) -> Array:
        """Compute the absolute value; integers are converted to floats."""
    def fix(self) -> Array:
        """Round towards zero."""
    def flatnonzero(self) -> Array:
        """Return the indices of the nonzero elements of the flattened tensor."""
    def flatten(self, start_dim: Any = ..., end_dim: Any = ...) -> Array:
        """Flatten to one dimension, or PyTorch's range of dimensions."""
    def flip(self, axis: Any = ...) -> Array:
        """Reverse the order along axes."""
    def fliplr(self) -> Array:
        """Reverse the order along the second axis."""
    def flipud(self) -> Array:
        """Reverse the order along the first axis."""
    def float(self) -> Array:
        """Convert to float32."""
    def floor(self) -> Array:
        """Round down."""
    def floor_divide(self, x2: Any) -> Array:
        """Compute x1 // x2, rounded down."""
    def fmax(self, x2: Any) -> Array:
        """Return the larger of two elements; NaN only if both are NaN."""
    def fmin(self, x2: Any) -> Array:
        """Return the smaller of two elements; NaN only if both are NaN."""
    def fmod(self, x2: Any) -> Array:
        """Return the remainder with the sign of x1."""
    def full_like(self, fill_value: Any, dtype: Any = ...) -> Array:
        """Return a tensor filled with one value, with the shape and dtype of another."""
    def gather(self, dim: Any, index: Any) -> Array:
        """Return elements by indices."""
    def gelu(self, *, approximate: Any = ...) -> Array:
        """Multiply x by the cumulative normal distribution; approximate="tanh" is supported."""
    def glu(self, axis: Any = ..., *, dim: Any = ...) -> Array:
        """Multiply one half by the sigmoid of the other half."""
    def greater(self, x2: Any) -> Array:
        """Compute x1 > x2."""
    def greater_equal(self, x2: Any) -> Array:
        """Compute x1 >= x2."""
    def group_norm(self, num_groups: Any = ..., weight: Any = ..., bias: Any = ..., eps: Any = ..., *, gamma: Any = ..., beta: Any = ..., axis: Any = ..., epsilon: Any = ..., center: Any = ..., scale: Any = ...) -> Array:
        """Normalize over groups of channels."""
    def half(self) -> Array:
        """Convert to float16."""
    def hardshrink(self, lambd: Any = ...) -> Array:
        """Return x, or 0 where abs(x) is at most lambd."""
    def hardsigmoid(self) -> Array:
        """Compute x / 6 + 1 / 2, limited to 0 to 1."""
    def hardswish(self) -> Array:
        """Compute x * hardsigmoid(x)."""
    def hardtanh(self, min_val: Any = ..., max_val: Any = ...) -> Array:
        """Limit x to the range from min_val to max_val (-1 to 1)."""
    def heaviside(self, x2: Any) -> Array:
        """Return 0, x2 or 1 for negative, zero or positive x1."""
    def hsplit(self, indices_or_sections: Any) -> Array:
        """Split into parts of equal size or at the given indices; return a tuple."""
    def huber_loss(self, target: Any, delta: Any = ..., *, reduction: Any = ...) -> Array:
        """Compute the squared error below delta and the absolute error above."""
    def hypot(self, x2: Any) -> Array:
        """Compute sqrt(x1 ** 2 + x2 ** 2) without overflow."""
    def index_select(self, dim: Any, index: Any) -> Array:
        """Return slices at indices."""
    def inner(self, b: Any) -> Array:
        """Compute the product over the last axes of both."""
    def instance_norm(self, gamma: Any = ..., beta: Any = ..., axis: Any = ..., epsilon: Any = ..., *, weight: Any = ..., bias: Any = ..., eps: Any = ..., center: Any = ..., scale: Any = ...) -> Array:
        """Normalize over each channel."""
    def int(self) -> Array:
        """Convert to int32."""
    def interpolate(self, size: Any = ..., scale_factor: Any = ..., mode: Any = ..., align_corners: Any = ...) -> Array:
        """Resize images."""
    def invert(self) -> Array:
        """Compute ~x."""
    def isclose(self, b: Any, rtol: Any = ..., atol: Any = ..., equal_nan: Any = ...) -> Array:
        """Test whether corresponding elements are nearly equal."""
    def isfinite(self) -> Array:
        """Test for finite numbers: neither infinite nor NaN."""
    def isinf(self) -> Array:
        """Test for infinity of either sign."""
    def isnan(self) -> Array:
        """Test for NaN."""
    def isneginf(self) -> Array:
        """Test for -inf."""
    def isposinf(self) -> Array:
        """Test for inf."""
    def kl_div(self, target: Any, *, reduction: Any = ..., log_target: Any = ...) -> Array:
        """Compute the Kullback-Leibler divergence of log probabilities."""
    def kron(self, b: Any) -> Array:
        """Compute the Kronecker product."""
    def kthvalue(self, k: Any, axis: Any = ..., keepdims: Any = ...) -> Array:
        """Return the k-th smallest elements, and their indices."""
    def l1_loss(self, target: Any, *, reduction: Any = ...) -> Array:
        """Compute the absolute error."""
    def layer_norm(self, normalized_shape: Any = ..., weight: Any = ..., bias: Any = ..., eps: Any = ..., *, gamma: Any = ..., beta: Any = ..., axis: Any = ..., epsilon: Any = ..., center: Any = ..., scale: Any = ...) -> Array:
        """Normalize over the last dimensions."""
    def leaky_relu(self, negative_slope: Any = ..., *, alpha: Any = ...) -> Array:
        """Scale x by negative_slope (0.01) where it is negative."""
    def left_shift(self, x2: Any) -> Array:
        """Compute x1 << x2."""
    def lerp(self, end: Any, weight: Any) -> Array:
        """Return a + weight * (end - a)."""
    def less(self, x2: Any) -> Array:
        """Compute x1 < x2."""
    def less_equal(self, x2: Any) -> Array:
        """Compute x1 <= x2."""
    def linear(self, weight: Any, bias: Any = ..., *, units: Any = ..., out_dtype: Any = ...) -> Array:
        """Call nn.dense, followed by nn.bias_add if a bias is given."""
    def log(self) -> Array:
        """Compute the natural logarithm."""
    def log10(self) -> Array:
        """Compute the logarithm to base 10."""
    def log1p(self) -> Array:
        """Compute log(1 + x), accurate near 0."""
    def log2(self) -> Array:
        """Compute the logarithm to base 2."""
    def log_softmax(self, axis: Any = ..., *, dim: Any = ...) -> Array:
        """Compute log(softmax(x))."""
    def logaddexp(self, x2: Any) -> Array:
        """Compute log(exp(x1) + exp(x2)) without overflow."""
    def logaddexp2(self, x2: Any) -> Array:
        """Compute log2(2 ** x1 + 2 ** x2) without overflow."""
    def logical_and(self, x2: Any) -> Array:
        """Test whether both elements are true (nonzero)."""
    def logical_not(self) -> Array:
        """Test whether each element is false (zero)."""
    def logical_or(self, x2: Any) -> Array:
        """Test whether either element is true (nonzero)."""
    def logical_xor(self, x2: Any) -> Array:
        """Test whether exactly one element is true (nonzero)."""
    def logsigmoid(self) -> Array:
        """Compute log(sigmoid(x)), numerically stable."""
    def logsumexp(self, axis: Any = ..., keepdims: Any = ..., *, keepdim: Any = ..., dim: Any = ...) -> Array:
        """Compute log(sum(exp(x))), numerically stable."""
    def long(self) -> Array:
        """Convert to int64."""
    def masked_fill(self, mask: Any, value: Any) -> Array:
        """Return value where the mask is true."""
    def matmul(self, b: Any) -> Array:
        """Compute a @ b."""
    def matrix_transpose(self) -> Array:
        """Swap the last two axes."""
    def max(self, axis: Any = ..., *more: Any, keepdims: Any = ..., initial: Any = ..., where: Any = ..., exclude: Any = ..., key: Any = ..., default: Any = ..., keys: Any = ...) -> Array:
        """Return the largest element along axes; NaN if there is one."""
    def max_pool1d(self, kernel_size: Any = ..., strides: Any = ..., padding: Any = ..., dilation: Any = ..., ceil_mode: Any = ..., return_indices: Any = ..., *, pool_size: Any = ..., layout: Any = ..., out_layout: Any = ..., stride: Any = ...) -> Array:
        """Return the largest element of each window."""
    def max_pool2d(self, kernel_size: Any = ..., strides: Any = ..., padding: Any = ..., dilation: Any = ..., ceil_mode: Any = ..., return_indices: Any = ..., *, pool_size: Any = ..., layout: Any = ..., out_layout: Any = ..., stride: Any = ...) -> Array:
        """Return the largest element of each window."""
    def max_pool3d(self, kernel_size: Any = ..., strides: Any = ..., padding: Any = ..., dilation: Any = ..., ceil_mode: Any = ..., return_indices: Any = ..., *, pool_size: Any = ..., layout: Any = ..., out_layout: Any = ..., stride: Any = ...) -> Array:
        """Return the largest element of each window."""
    def maximum(self, x2: Any) -> Array:
        """Return the larger of two elements; NaN if either is NaN."""
    def mean(self, axis: Any = ..., dtype: Any = ..., *, keepdims: Any = ..., where: Any = ..., exclude: Any = ...) -> Array:
        """Compute the arithmetic mean along axes; f64 for integers."""
    def median(self, axis: Any = ..., *, keepdims: Any = ...) -> Array:
        """Compute the median."""
    def min(self, axis: Any = ..., *more: Any, keepdims: Any = ..., initial: Any = ..., where: Any = ..., exclude: Any = ..., key: Any = ..., default: Any = ..., keys: Any = ...) -> Array:
        """Return the smallest element along axes; NaN if there is one."""
    def minimum(self, x2: Any) -> Array:
        """Return the smaller of two elements; NaN if either is NaN."""
    def mish(self) -> Array:
        """Compute x * tanh(softplus(x))."""
    def mm(self, b: Any) -> Array:
        """Compute a @ b."""
    def mod(self, x2: Any) -> Array:
        """Compute x1 % x2, with the sign of x2."""
    def mode(self, axis: Any = ..., keepdims: Any = ...) -> Array:
        """Return the most frequent elements, and their indices."""
    def modf(self) -> Array:
        """Return the fractional and integral parts."""
    def moveaxis(self, source: Any, destination: Any) -> Array:
        """Move axes to other positions."""
    def mse_loss(self, target: Any, *, reduction: Any = ...) -> Array:
        """Compute the squared error."""
    def mul(self, x2: Any) -> Array:
        """Compute x1 * x2."""
    def multiply(self, x2: Any) -> Array:
        """Compute x1 * x2."""
    def mv(self, b: Any) -> Array:
        """Compute a @ b."""
    def nan_to_num(self, copy: Any = ..., nan: Any = ..., posinf: Any = ..., neginf: Any = ...) -> Array:
        """Replace NaN and infinities by numbers."""
    def nanargmax(self, axis: Any = ..., *, keepdims: Any = ...) -> Array:
        """Return the index of the largest element that is not NaN, i64."""
    def nanargmin(self, axis: Any = ..., *, keepdims: Any = ...) -> Array:
        """Return the index of the smallest element that is not NaN, i64."""
    def nancumprod(self, axis: Any = ..., dtype: Any = ...) -> Array:
        """Compute cumprod, ignoring NaN."""
    def nancumsum(self, axis: Any = ..., dtype: Any = ...) -> Array:
        """Compute cumsum, ignoring NaN."""
    def nanmax(self, axis: Any = ..., *, keepdims: Any = ..., exclude: Any = ...) -> Array:
        """Compute max, ignoring NaN."""
    def nanmean(self, axis: Any = ..., dtype: Any = ..., *, keepdims: Any = ..., where: Any = ..., exclude: Any = ...) -> Array:
        """Compute mean, ignoring NaN."""
    def nanmedian(self, axis: Any = ..., *, keepdims: Any = ...) -> Array:
        """Compute the median, ignoring NaN."""
    def nanmin(self, axis: Any = ..., *, keepdims: Any = ..., exclude: Any = ...) -> Array:
        """Compute min, ignoring NaN."""
    def nanpercentile(self, q: Any, axis: Any = ..., *, method: Any = ..., keepdims: Any = ...) -> Array:
        """Compute percentiles, with linear interpolation, ignoring NaN."""
    def nanprod(self, axis: Any = ..., dtype: Any = ..., *, keepdims: Any = ..., exclude: Any = ...) -> Array:
        """Compute prod, ignoring NaN."""
    def nanquantile(self, q: Any, axis: Any = ..., *, method: Any = ..., keepdims: Any = ...) -> Array:
        """Compute quantiles, with linear interpolation, ignoring NaN."""
    def nanstd(self, axis: Any = ..., dtype: Any = ..., *, ddof: Any = ..., keepdims: Any = ..., exclude: Any = ...) -> Array:
        """Compute std, ignoring NaN."""
    def nansum(self, axis: Any = ..., dtype: Any = ..., *, keepdims: Any = ..., exclude: Any = ...) -> Array:
        """Compute sum, ignoring NaN."""
    def nanvar(self, axis: Any = ..., dtype: Any = ..., *, ddof: Any = ..., keepdims: Any = ..., exclude: Any = ...) -> Array:
        """Compute var, ignoring NaN."""
    def negative(self) -> Array:
        """Change the sign of each element."""
    def nextafter(self, x2: Any) -> Array:
        """Return the next float after x1 towards x2."""
    def nll_loss(self, target: Any, weight: Any = ..., *, weights: Any = ..., ignore_index: Any = ..., reduction: Any = ...) -> Array:
        """Compute the negative log-likelihood of the classes."""
    def nonzero(self) -> Array:
        """Return the indices of nonzero elements: one i64 tensor of `?` elements per dimension."""
    def norm(self, ord: Any = ..., axis: Any = ..., keepdims: Any = ...) -> Array:
        """Compute the norm of vectors or matrices (numpy.linalg.norm)."""
    def normalize(self, p: Any = ..., axis: Any = ..., eps: Any = ..., *, dim: Any = ...) -> Array:
        """Divide by the norm along an axis, by default 1."""
    def not_equal(self, x2: Any) -> Array:
        """Compute x1 != x2."""
    def numel(self) -> Array:
        """Return the number of elements."""
    def numpy(self) -> Array:
        """Return the tensor itself."""
    def one_hot(self, num_classes: Any = ..., off_value: Any = ..., depth: Any = ..., axis: Any = ..., dtype: Any = ..., *, on_value: Any = ...) -> Array:
        """Return one-hot vectors along a new axis."""
    def ones_like(self, dtype: Any = ...) -> Array:
        """Return a tensor of ones, with the shape and dtype of another."""
    def outer(self, b: Any) -> Array:
        """Compute the outer product."""
    def pad(self, pad_width: Any, mode: Any = ..., *, constant_values: Any = ..., pad_value: Any = ..., pad_mode: Any = ...) -> Array:
        """Pad the ends of axes."""
    def percentile(self, q: Any, axis: Any = ..., *, method: Any = ..., keepdims: Any = ...) -> Array:
        """Compute percentiles, with linear interpolation."""
    def permute(self, *axes: Any) -> Array:
        """Permute the axes; reverse them if none are given."""
    def pixel_shuffle(self, upscale_factor: Any) -> Array:
        """Rearrange channels into pixels."""
    def pixel_unshuffle(self, downscale_factor: Any) -> Array:
        """Rearrange pixels into channels."""
    def positive(self) -> Array:
        """Return the tensor itself."""
    def pow(self, x2: Any, mod: Any = ...) -> Array:
        """Compute x1 ** x2."""
    def power(self, x2: Any) -> Array:
        """Compute x1 ** x2."""
    def prelu(self, weight: Any, axis: Any = ...) -> Array:
        """Scale x by learned slopes where it is negative."""
    def prod(self, axis: Any = ..., dtype: Any = ..., *, keepdims: Any = ..., initial: Any = ..., where: Any = ..., exclude: Any = ...) -> Array:
        """Return the product along axes; 64-bit for integers."""
    def ptp(self, axis: Any = ..., *, keepdims: Any = ...) -> Array:
        """Return the range, max - min, along axes."""
    def quantile(self, q: Any, axis: Any = ..., *, method: Any = ..., keepdims: Any = ...) -> Array:
        """Compute quantiles, with linear interpolation."""
    def rad2deg(self) -> Array:
        """Convert radians to degrees."""
    def radians(self) -> Array:
        """Convert degrees to radians."""
    def ravel(self) -> Array:
        """Flatten to one dimension."""
    def reciprocal(self) -> Array:
        """Compute 1 / x, for floats."""
    def relu(self) -> Array:
        """Compute max(x, 0)."""
    def relu6(self) -> Array:
        """Limit x to the range from 0 to 6."""
    def remainder(self, x2: Any) -> Array:
        """Compute x1 % x2, with the sign of x2."""
    def repeat(self, repeats: Any, axis: Any = ...) -> Array:
        """Repeat each element."""
    def reshape(self, *newshape: Any) -> Array:
        """Change the shape; -1 stands for one dimension that is computed."""
    def right_shift(self, x2: Any) -> Array:
        """Compute x1 >> x2."""
    def rint(self) -> Array:
        """Round to the nearest integer, halves to even."""
    def rms_norm(self, normalized_shape: Any = ..., weight: Any = ..., eps: Any = ..., *, axis: Any = ..., epsilon: Any = ...) -> Array:
        """Normalize by the root mean square."""
    def roll(self, shift: Any, axis: Any = ...) -> Array:
        """Shift cyclically along axes."""
    def rollaxis(self, axis: Any, start: Any = ...) -> Array:
        """Move an axis before another."""
    def rot90(self, k: Any = ..., axes: Any = ...) -> Array:
        """Rotate by multiples of 90 degrees in a plane of two axes."""
    def round(self, decimals: Any = ..., *, ndigits: Any = ...) -> Array:
        """Round to the given number of decimals, halves to even."""
    def rsqrt(self) -> Array:
        """Compute 1 / sqrt(x)."""
    def scatter(self, dim: Any, index: Any, src: Any) -> Array:
        """Return a copy with elements replaced by indices."""
    def searchsorted(self, v: Any, side: Any = ..., sorter: Any = ..., *, right: Any = ..., dtype: Any = ...) -> Array:
        """Return the indices at which values can be inserted to keep the order, i64."""
    def selu(self) -> Array:
        """Compute the self-normalizing elu."""
    def sigmoid(self) -> Array:
        """Compute 1 / (1 + exp(-x))."""
    def sign(self) -> Array:
        """Return -1, 0 or 1 for negative, zero or positive elements."""
    def signbit(self) -> Array:
        """Test whether the sign bit is set."""
    def silu(self) -> Array:
        """Compute x * sigmoid(x)."""
    def sin(self) -> Array:
        """Compute the sine of angles in radians."""
    def sinc(self) -> Array:
        """Compute sin(pi x) / (pi x); f64 for integers."""
    def sinh(self) -> Array:
        """Compute the hyperbolic sine."""
    def smooth_l1_loss(self, target: Any, beta: Any = ..., *, reduction: Any = ...) -> Array:
        """Compute the squared error below beta and the absolute error above."""
    def softmax(self, axis: Any = ..., *, dim: Any = ...) -> Array:
        """Compute exp(x) divided by its sum along an axis, by default the last."""
    def softmin(self, axis: Any = ..., *, dim: Any = ...) -> Array:
        """Compute softmax(-x)."""
    def softplus(self, beta: Any = ..., threshold: Any = ...) -> Array:
        """Compute log(1 + exp(x)), numerically stable."""
    def softshrink(self, lambd: Any = ...) -> Array:
        """Move x towards 0 by lambd."""
    def softsign(self) -> Array:
        """Compute x / (1 + abs(x))."""
    def split(self, indices_or_sections: Any, axis: Any = ...) -> Array:
        """Split into parts of equal size or at the given indices; return a tuple."""
    def sqrt(self) -> Array:
        """Compute the square root."""
    def square(self) -> Array:
        """Compute x * x."""
    def squeeze(self, axis: Any = ..., *, dim: Any = ...) -> Array:
        """Remove axes of size 1."""
    def std(self, axis: Any = ..., dtype: Any = ..., *, ddof: Any = ..., keepdims: Any = ..., mean: Any = ..., correction: Any = ..., unbiased: Any = ..., exclude: Any = ...) -> Array:
        """Compute the standard deviation along axes."""
    def stop_gradient(self) -> Array:
        """Return x; no gradient flows through it."""
    def sub(self, x2: Any) -> Array:
        """Compute x1 - x2."""
    def subtract(self, x2: Any) -> Array:
        """Compute x1 - x2."""
    def sum(self, axis: Any = ..., dtype: Any = ..., *, keepdims: Any = ..., initial: Any = ..., where: Any = ..., exclude: Any = ...) -> Array:
        """Return the sum along axes; 64-bit for integers."""
    def swapaxes(self, axis1: Any, axis2: Any) -> Array:
        """Swap two axes."""
    def swish(self) -> Array:
        """Compute x * sigmoid(x)."""
    def t(self) -> Array:
        """Return the matrix with its dimensions swapped."""
    def take(self, indices: Any, axis: Any = ..., mode: Any = ..., *, batch_dims: Any = ...) -> Array:
        """Take elements, or slices along an axis, at the given indices."""
    def take_along_axis(self, indices: Any, axis: Any = ..., *, dim: Any = ...) -> Array:
        """Take one element for each index along an axis."""
    def tan(self) -> Array:
        """Compute the tangent of angles in radians."""
    def tanh(self) -> Array:
        """Compute the hyperbolic tangent."""
    def tanhshrink(self) -> Array:
        """Compute x - tanh(x)."""
    def tensordot(self, b: Any, axes: Any = ...) -> Array:
        """Compute the product over the given axes."""
    def threshold(self, threshold: Any, value: Any) -> Array:
        """Return x where it is above the threshold, else value."""
    def tile(self, reps: Any) -> Array:
        """Repeat the whole tensor."""
    def to(self, dtype: Any = ...) -> Array:
        """Convert to a dtype; a device means nothing."""
    def tolist(self) -> Array:
        """Return a list of numbers, or of lists of numbers."""
    def topk(self, k: Any, dim: Any = ..., largest: Any = ..., sorted: Any = ...) -> Array:
        """Return (values, indices) of the k largest elements."""
    def trace(self, offset: Any = ..., axis1: Any = ..., axis2: Any = ..., dtype: Any = ...) -> Array:
        """Sum a diagonal."""
    def transpose(self, *axes: Any) -> Array:
        """Permute the axes; reverse them if none are given."""
    def tril(self, k: Any = ..., *, diagonal: Any = ...) -> Array:
        """Return the lower triangle."""
    def triu(self, k: Any = ..., *, diagonal: Any = ...) -> Array:
        """Return the upper triangle."""
    def true_divide(self, x2: Any) -> Array:
        """Compute x1 / x2; f64 for integers and bools."""
    def trunc(self) -> Array:
        """Round towards zero."""
    def type_as(self, other: Any) -> Array:
        """Convert to the dtype of another tensor."""
    def unfold(self, dimension: Any, size: Any, step: Any) -> Array:
        """Return windows along a dimension, as the last axis."""
    def unique(self, return_index: Any = ..., return_inverse: Any = ..., return_counts: Any = ..., axis: Any = ..., *, equal_nan: Any = ..., sorted: Any = ...) -> Array:
        """Return the distinct elements in ascending order, `?` of them; one NaN."""
    def unsqueeze(self, axis: Any) -> Array:
        """Insert axes of size 1."""
    def upsample(self, size: Any = ..., scale_factor: Any = ..., mode: Any = ..., align_corners: Any = ...) -> Array:
        """Resize images."""
    def var(self, axis: Any = ..., dtype: Any = ..., *, ddof: Any = ..., keepdims: Any = ..., mean: Any = ..., correction: Any = ..., unbiased: Any = ..., exclude: Any = ...) -> Array:
        """Compute the variance along axes."""
    def variance(self, axis: Any = ..., dtype: Any = ..., *, ddof: Any = ..., keepdims: Any = ..., mean: Any = ..., correction: Any = ..., unbiased: Any = ..., exclude: Any = ..., with_mean: Any = ...) -> Array:
        """Compute the variance along axes, as var does."""
    def vdot(self, b: Any) -> Array:
        """Compute the dot product of the flattened tensors; of a, the complex conjugate."""
    def vecdot(self, b: Any, *, axis: Any = ...) -> Array:
        """Compute the dot products of vectors along an axis; of a, the complex conjugate."""
    def view(self, *newshape: Any) -> Array:
        """Change the shape; -1 stands for one dimension that is computed."""
    def vsplit(self, indices_or_sections: Any) -> Array:
        """Split into parts of equal size or at the given indices; return a tuple."""
    def zeros_like(self, dtype: Any = ...) -> Array:
        """Return a tensor of zeros, with the shape and dtype of another."""
    def __add__(self, other: Any, /) -> Array: ...
    def __sub__(self, other: Any, /) -> Array: ...
    def __mul__(self, other: Any, /) -> Array: ...
    def __truediv__(self, other: Any, /) -> Array: ...
    def __floordiv__(self, other: Any, /) -> Array: ...
    def __mod__(self, other: Any, /) -> Array: ...
    def __pow__(self, other: Any, /) -> Array: ...
    def __matmul__(self, other: Any, /) -> Array: ...
    def __and__(self, other: Any, /) -> Array: ...
    def __or__(self, other: Any, /) -> Array: ...
    def __xor__(self, other: Any, /) -> Array: ...
    def __lshift__(self, other: Any, /) -> Array: ...
    def __rshift__(self, other: Any, /) -> Array: ...
    def __radd__(self, other: Any, /) -> Array: ...
    def __rsub__(self, other: Any, /) -> Array: ...
    def __rmul__(self, other: Any, /) -> Array: ...
    def __rtruediv__(self, other: Any, /) -> Array: ...
    def __rfloordiv__(self, other: Any, /) -> Array: ...
    def __rmod__(self, other: Any, /) -> Array: ...
    def __rpow__(self, other: Any, /) -> Array: ...
    def __rmatmul__(self, other: Any, /) -> Array: ...
    def __rand__(self, other: Any, /) -> Array: ...
    def __ror__(self, other: Any, /) -> Array: ...
    def __rxor__(self, other: Any, /) -> Array: ...
    def __rlshift__(self, other: Any, /) -> Array: ...
    def __rrshift__(self, other: Any, /) -> Array: ...
    def __lt__(self, other: Any, /) -> Array: ...
    def __le__(self, other: Any, /) -> Array: ...
    def __gt__(self, other: Any, /) -> Array: ...
    def __ge__(self, other: Any, /) -> Array: ...
    def __eq__(self, other: Any, /) -> Array: ...
    def __ne__(self, other: Any, /) -> Array: ...
    def __neg__(self) -> Array: ...
    def __pos__(self) -> Array: ...
    def __abs__(self) -> Array: ...
    def __invert__(self) -> Array: ...
    def __iter__(self) -> Any: ...
    def __getitem__(self, index: Any, /) -> Array: ...
    def __setitem__(self, index: Any, value: Any, /) -> None: ...
    @property
    def T(self) -> Array: ...

#: What compiled functions take and give: to a type checker whatever can be an array or a number.
Array: TypeAlias = _Array | Any

class _Scalar(Protocol):
    """A number: Python's, NumPy's, or an array of rank 0."""

    def __add__(self, other: Any, /) -> _Scalar: ...
    def __sub__(self, other: Any, /) -> _Scalar: ...
    def __mul__(self, other: Any, /) -> _Scalar: ...
    def __truediv__(self, other: Any, /) -> _Scalar: ...
    def __floordiv__(self, other: Any, /) -> _Scalar: ...
    def __mod__(self, other: Any, /) -> _Scalar: ...
    def __pow__(self, other: Any, /) -> _Scalar: ...
    def __radd__(self, other: Any, /) -> _Scalar: ...
    def __rsub__(self, other: Any, /) -> _Scalar: ...
    def __rmul__(self, other: Any, /) -> _Scalar: ...
    def __rtruediv__(self, other: Any, /) -> _Scalar: ...
    def __rfloordiv__(self, other: Any, /) -> _Scalar: ...
    def __rmod__(self, other: Any, /) -> _Scalar: ...
    def __rpow__(self, other: Any, /) -> _Scalar: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...
    def __eq__(self, other: Any, /) -> Any: ...
    def __ne__(self, other: Any, /) -> Any: ...
    def __neg__(self) -> _Scalar: ...
    def __pos__(self) -> _Scalar: ...
    def __abs__(self) -> _Scalar: ...
    def __float__(self) -> float: ...
    def __int__(self) -> int: ...

class _Subscripted(ABCMeta):
    def __getitem__(cls, item: Any, /) -> Any: ...

class Out(metaclass=_Subscripted):
    """Annotation of an array that a call fills."""

class InOut(metaclass=_Subscripted):
    """Annotation of an array that a call reads and changes."""

class Tensor(Protocol, metaclass=_Subscripted):
    """Annotation of a tensor; alone, that of any array."""

    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...
    def __getitem__(self, index: Any, /) -> Array: ...
    def __add__(self, other: Any, /) -> Array: ...
    def __sub__(self, other: Any, /) -> Array: ...
    def __mul__(self, other: Any, /) -> Array: ...
    def __truediv__(self, other: Any, /) -> Array: ...
    def __floordiv__(self, other: Any, /) -> Array: ...
    def __mod__(self, other: Any, /) -> Array: ...
    def __pow__(self, other: Any, /) -> Array: ...
    def __matmul__(self, other: Any, /) -> Array: ...
    def __lt__(self, other: Any, /) -> Array: ...
    def __le__(self, other: Any, /) -> Array: ...
    def __gt__(self, other: Any, /) -> Array: ...
    def __ge__(self, other: Any, /) -> Array: ...
    def __eq__(self, other: Any, /) -> Array: ...
    def __ne__(self, other: Any, /) -> Array: ...
    def __neg__(self) -> Array: ...
class f16(_Scalar, Protocol): ...
class bf16(_Scalar, Protocol): ...
class f32(_Scalar, Protocol): ...
class f64(_Scalar, Protocol): ...
class i8(_Scalar, Protocol): ...
class i16(_Scalar, Protocol): ...
class i32(_Scalar, Protocol): ...
class i64(_Scalar, Protocol): ...
class u8(_Scalar, Protocol): ...
class u16(_Scalar, Protocol): ...
class u32(_Scalar, Protocol): ...
class u64(_Scalar, Protocol): ...
class bool_(_Scalar, Protocol): ...
class c64(_Scalar, Protocol): ...
class c128(_Scalar, Protocol): ...
float16 = f16
bfloat16 = bf16
float32 = f32
float64 = f64
int8 = i8
int16 = i16
int32 = i32
int64 = i64
uint8 = u8
uint16 = u16
uint32 = u32
uint64 = u64
complex64 = c64
complex128 = c128
pi: float
inf: float
nan: float
newaxis: None
nn: Any
random: Any
def grad(
    f: Callable[_P, Any], argnums: Any = ..., *, has_aux: bool = ...
) -> TypedFunction[_P, Any]:
    """Return the gradient of a function."""
def value_and_grad(
    f: Callable[_P, Any], argnums: Any = ..., *, has_aux: bool = ...
) -> TypedFunction[_P, Any]:
    """Return a function that gives the value and the gradient."""
def vjp(f: Callable[..., Any], argnums: Any = ...) -> TypedFunction[..., Any]:
    """Return a function that gives the result and the gradients for a cotangent of the result."""
def jvp(f: Callable[..., Any], argnums: Any = ...) -> TypedFunction[..., Any]:
    """Return a function that gives the result and the directional derivative."""
def jacobian(f: Callable[_P, Any], argnums: Any = ...) -> TypedFunction[_P, Any]:
    """Return the Jacobian of a function."""
def hessian(f: Callable[_P, Any], argnums: Any = ...) -> TypedFunction[_P, Any]:
    """Return the second derivatives of a function."""
def vmap(f: Callable[..., _R], in_axes: Any = ..., out_axes: Any = ...) -> TypedFunction[..., _R]:
    """Return a function that computes another for each element of an axis of its arguments."""
def abs(x: Any) -> Array:
    """Compute the absolute value."""
def absolute(x: Any) -> Array:
    """Compute the absolute value."""
def acos(x: Any) -> Array:
    """Compute the inverse cosine, in radians."""
def acosh(x: Any) -> Array:
    """Compute the inverse hyperbolic cosine."""
def adaptive_avg_pool1d(data: Any, output_size: Any = ..., *, layout: Any = ..., out_layout: Any = ...) -> Array:
    """Return the mean of each window; output_size windows per axis."""
def adaptive_avg_pool2d(data: Any, output_size: Any = ..., *, layout: Any = ..., out_layout: Any = ...) -> Array:
    """Return the mean of each window; output_size windows per axis."""
def adaptive_avg_pool3d(data: Any, output_size: Any = ..., *, layout: Any = ..., out_layout: Any = ...) -> Array:
    """Return the mean of each window; output_size windows per axis."""
def adaptive_max_pool1d(data: Any, output_size: Any = ..., *, layout: Any = ..., out_layout: Any = ...) -> Array:
    """Return the largest element of each window; output_size windows per axis."""
def adaptive_max_pool2d(data: Any, output_size: Any = ..., *, layout: Any = ..., out_layout: Any = ...) -> Array:
    """Return the largest element of each window; output_size windows per axis."""
def adaptive_max_pool3d(data: Any, output_size: Any = ..., *, layout: Any = ..., out_layout: Any = ...) -> Array:
    """Return the largest element of each window; output_size windows per axis."""
def add(x1: Any, x2: Any) -> Array:
    """Compute x1 + x2."""
def adv_index(inputs: Any) -> Array:
    """NumPy's advanced indexing of the first tensor by the others."""
def all(a: Any, axis: Any = ..., *, keepdims: Any = ..., where: Any = ..., exclude: Any = ...) -> Array:
    """Test whether all elements are true (nonzero)."""
def allclose(a: Any, b: Any, rtol: Any = ..., atol: Any = ..., equal_nan: Any = ...) -> Array:
    """Test whether all elements are nearly equal, as a single bool."""
def amax(a: Any, axis: Any = ..., *more: Any, keepdims: Any = ..., initial: Any = ..., where: Any = ..., exclude: Any = ...) -> Array:
    """Return the largest element along axes; NaN if there is one."""
def amin(a: Any, axis: Any = ..., *more: Any, keepdims: Any = ..., initial: Any = ..., where: Any = ..., exclude: Any = ...) -> Array:
    """Return the smallest element along axes; NaN if there is one."""
def angle(z: Any, deg: Any = ...) -> Array:
    """Compute the angle in the complex plane, in radians."""
def any(a: Any, axis: Any = ..., *, keepdims: Any = ..., where: Any = ..., exclude: Any = ...) -> Array:
    """Test whether any element is true (nonzero)."""
def append(arr: Any, values: Any, axis: Any = ...) -> Array:
    """Join two tensors; flatten them if no axis is given."""
def apply_along_axis(func1d: Any, axis: Any, arr: Any, *args: Any) -> Array:
    """Call a function for each vector along an axis."""
def apply_over_axes(func: Any, a: Any, axes: Any) -> Array:
    """Apply a reduction along several axes, which stay."""
def arange(start: Any, stop: Any = ..., step: Any = ..., dtype: Any = ..., *, end: Any = ...) -> Array:
    """Return evenly spaced numbers, by step."""
def arccos(x: Any) -> Array:
    """Compute the inverse cosine, in radians."""
def arccosh(x: Any) -> Array:
    """Compute the inverse hyperbolic cosine."""
def arcsin(x: Any) -> Array:
    """Compute the inverse sine, in radians."""
def arcsinh(x: Any) -> Array:
    """Compute the inverse hyperbolic sine."""
def arctan(x: Any) -> Array:
    """Compute the inverse tangent, in radians."""
def arctan2(x1: Any, x2: Any) -> Array:
    """Compute the angle of the point (x2, x1)."""
def arctanh(x: Any) -> Array:
    """Compute the inverse hyperbolic tangent."""
def argmax(a: Any, axis: Any = ..., *, keepdims: Any = ..., select_last_index: Any = ...) -> Array:
    """Return the index of the largest element, i64; of the first NaN if there is one."""
def argmin(a: Any, axis: Any = ..., *, keepdims: Any = ..., select_last_index: Any = ...) -> Array:
    """Return the index of the smallest element, i64; of the first NaN if there is one."""
def argpartition(a: Any, kth: Any, axis: Any = ...) -> Array:
    """Return indices of the elements, of which those at `kth` are where sorting would put them, i64."""
def argsort(a: Any, axis: Any = ..., *, is_ascend: Any = ..., dtype: Any = ..., kind: Any = ..., stable: Any = ..., descending: Any = ...) -> Array:
    """Return the indices that sort the tensor, i64; stable."""
def argwhere(a: Any) -> Array:
    """Return the indices of nonzero elements: one row each, i64, `?` rows."""
def around(a: Any, decimals: Any = ...) -> Array:
    """Round to the given number of decimals, halves to even."""
def array(object: Any, dtype: Any = ..., *, copy: Any = ..., ndmin: Any = ...) -> Array:
    """Convert nested lists of numbers or tensors to a tensor."""
def array_equal(a1: Any, a2: Any, equal_nan: Any = ...) -> Array:
    """Test whether two tensors are equal, as a single bool."""
def array_equiv(a1: Any, a2: Any) -> Array:
    """Test whether two tensors are equal where they broadcast."""
def array_split(ary: Any, indices_or_sections: Any, axis: Any = ...) -> Array:
    """Split into parts of equal size or at the given indices; return a tuple."""
def asarray(object: Any, dtype: Any = ..., *, copy: Any = ...) -> Array:
    """Convert nested lists of numbers or tensors to a tensor."""
def ascontiguousarray(object: Any, dtype: Any = ...) -> Array:
    """Return the tensor itself, with one dimension or more."""
def asfortranarray(object: Any, dtype: Any = ...) -> Array:
    """Return the tensor itself: the order in memory is no part of it."""
def asin(x: Any) -> Array:
    """Compute the inverse sine, in radians."""
def asinh(x: Any) -> Array:
    """Compute the inverse hyperbolic sine."""
def astype(x: Any, dtype: Any, *, copy: Any = ...) -> Array:
    """Convert to another dtype."""
def atan(x: Any) -> Array:
    """Compute the inverse tangent, in radians."""
def atan2(x1: Any, x2: Any) -> Array:
    """Compute the angle of the point (x2, x1)."""
def atanh(x: Any) -> Array:
    """Compute the inverse hyperbolic tangent."""
def atleast_1d(*arrays: Any) -> Array:
    """Ensure at least 1 dimensions."""
def atleast_2d(*arrays: Any) -> Array:
    """Ensure at least 2 dimensions."""
def atleast_3d(*arrays: Any) -> Array:
    """Ensure at least 3 dimensions."""
def average(a: Any, axis: Any = ..., weights: Any = ..., *, keepdims: Any = ...) -> Array:
    """Compute the weighted mean."""
def avg_pool1d(data: Any, kernel_size: Any = ..., strides: Any = ..., padding: Any = ..., ceil_mode: Any = ..., count_include_pad: Any = ..., *, pool_size: Any = ..., layout: Any = ..., out_layout: Any = ..., dilation: Any = ..., stride: Any = ...) -> Array:
    """Return the mean of each window."""
def avg_pool2d(data: Any, kernel_size: Any = ..., strides: Any = ..., padding: Any = ..., ceil_mode: Any = ..., count_include_pad: Any = ..., *, pool_size: Any = ..., layout: Any = ..., out_layout: Any = ..., dilation: Any = ..., stride: Any = ...) -> Array:
    """Return the mean of each window."""
def avg_pool3d(data: Any, kernel_size: Any = ..., strides: Any = ..., padding: Any = ..., ceil_mode: Any = ..., count_include_pad: Any = ..., *, pool_size: Any = ..., layout: Any = ..., out_layout: Any = ..., dilation: Any = ..., stride: Any = ...) -> Array:
    """Return the mean of each window."""
def bartlett(M: Any) -> Array:
    """The Bartlett window of M points, f64."""
def batch_norm(data: Any, running_mean: Any = ..., running_var: Any = ..., weight: Any = ..., bias: Any = ..., training: Any = ..., momentum: Any = ..., eps: Any = ..., *, gamma: Any = ..., beta: Any = ..., moving_mean: Any = ..., moving_var: Any = ..., axis: Any = ..., epsilon: Any = ..., center: Any = ..., scale: Any = ...) -> Array:
    """Normalize by the running mean and variance; in training by the batch's, giving (y, mean, var)."""
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = ...) -> Array:
    """Compute input1 @ weight @ input2 for each output."""
def binary_cross_entropy(input: Any, target: Any, weight: Any = ..., *, reduction: Any = ...) -> Array:
    """Compute the binary cross entropy of probabilities."""
def binary_cross_entropy_with_logits(input: Any, target: Any, weight: Any = ..., *, reduction: Any = ..., pos_weight: Any = ...) -> Array:
    """Compute the binary cross entropy of logits, numerically stable."""
def bincount(x: Any, weights: Any = ..., minlength: Any = ..., *, length: Any = ...) -> Array:
    """Count how often each of 0, 1, 2, ... occurs, or add up its weights."""
def bitwise_and(x1: Any, x2: Any) -> Array:
    """Compute x1 & x2."""
def bitwise_count(x: Any) -> Array:
    """Count the bits that are set in absolute values, as u8."""
def bitwise_invert(x: Any) -> Array:
    """Compute ~x."""
def bitwise_left_shift(x1: Any, x2: Any) -> Array:
    """Compute x1 << x2."""
def bitwise_not(x: Any) -> Array:
    """Compute ~x."""
def bitwise_or(x1: Any, x2: Any) -> Array:
    """Compute x1 | x2."""
def bitwise_right_shift(x1: Any, x2: Any) -> Array:
    """Compute x1 >> x2."""
def bitwise_xor(x1: Any, x2: Any) -> Array:
    """Compute x1 ^ x2."""
def blackman(M: Any) -> Array:
    """The Blackman window of M points, f64."""
def block(arrays: Any) -> Array:
    """Join the tensors of nested lists, as a matrix of blocks."""
def broadcast_arrays(*arrays: Any) -> Array:
    """Broadcast to a common shape; return a tuple."""
def broadcast_to(a: Any, shape: Any) -> Array:
    """Broadcast to a shape."""
def broadcast_to_like(data: Any, broadcast_type: Any) -> Array:
    """Data repeated along axes of length 1 until it has another tensor's shape."""
def c_(*arrays: Any) -> Array:
    """Join vectors as columns: `c_[x, y]`."""
def callback(function: Any, *arguments: Any, result: Any = ..., effects: Any = ...) -> Array:
    """Call a function of Python, and check that it returns what `result` says."""
def cast(data: Any, dtype: Any) -> Array:
    """Each element converted to another dtype."""
def cast_like(data: Any, dtype_like: Any) -> Array:
    """Each element converted to the dtype of another tensor."""
def cbrt(x: Any) -> Array:
    """Compute the cube root."""
def ceil(x: Any) -> Array:
    """Round up."""
def celu(x: Any, alpha: Any = ...) -> Array:
    """Return x, or alpha * (exp(x / alpha) - 1) where x is negative."""
def checkpoint(f: Any, every: Any = ...) -> Array:
    """Return f; its gradient computes values of f again, or every so many rounds of its loops."""
def cholesky(a: Any, *, upper: Any = ...) -> Array:
    """Compute the Cholesky factor of a positive definite matrix (numpy.linalg.cholesky)."""
def choose(a: Any, choices: Any) -> Array:
    """Choose between tensors by index."""
def chr(i: Any) -> Array:
    """Return the character of a code point."""
def clip(a: Any, a_min: Any = ..., a_max: Any = ..., *, min: Any = ..., max: Any = ...) -> Array:
    """Limit each element to a range; a bound may be None or a tensor."""
def collapse_sum_like(data: Any, collapse_type: Any) -> Array:
    """Sums along the axes in which data is larger than another tensor: the gradient of a broadcast."""
def collapse_sum_to(data: Any, shape: Any) -> Array:
    """Sums along the axes in which data is larger than a shape."""
def column_stack(arrays: Any, *, dtype: Any = ...) -> Array:
    """Join vectors as columns."""
def compress(condition: Any, a: Any, axis: Any = ...) -> Array:
    """Return the elements, or the slices along an axis, where a condition is true."""
def concat(arrays: Any, axis: Any = ..., *, dtype: Any = ..., dim: Any = ...) -> Array:
    """Join along an axis."""
def concatenate(arrays: Any, axis: Any = ..., *, dtype: Any = ...) -> Array:
    """Join along an axis."""
def cond(a: Any, p: Any = ...) -> Array:
    """Compute the condition number: the ratio of singular values (numpy.linalg.cond)."""
def conj(x: Any) -> Array:
    """Compute the complex conjugate."""
def conjugate(x: Any) -> Array:
    """Compute the complex conjugate."""
def contrib_reverse_reshape(data: Any, newshape: Any) -> Array:
    """As reshape, with the special values read from right to left."""
def conv1d(data: Any, weight: Any, bias: Any = ..., strides: Any = ..., padding: Any = ..., dilation: Any = ..., groups: Any = ..., channels: Any = ..., kernel_size: Any = ..., data_layout: Any = ..., kernel_layout: Any = ..., out_layout: Any = ..., out_dtype: Any = ..., *, stride: Any = ...) -> Array:
    """Call nn.conv1d, followed by nn.bias_add if a bias is given."""
def conv2d(data: Any, weight: Any, bias: Any = ..., strides: Any = ..., padding: Any = ..., dilation: Any = ..., groups: Any = ..., channels: Any = ..., kernel_size: Any = ..., data_layout: Any = ..., kernel_layout: Any = ..., out_layout: Any = ..., out_dtype: Any = ..., *, stride: Any = ...) -> Array:
    """Call nn.conv2d, followed by nn.bias_add if a bias is given."""
def conv3d(data: Any, weight: Any, bias: Any = ..., strides: Any = ..., padding: Any = ..., dilation: Any = ..., groups: Any = ..., channels: Any = ..., kernel_size: Any = ..., data_layout: Any = ..., kernel_layout: Any = ..., out_layout: Any = ..., out_dtype: Any = ..., *, stride: Any = ...) -> Array:
    """Call nn.conv3d, followed by nn.bias_add if a bias is given."""
def conv_transpose1d(data: Any, weight: Any, bias: Any = ..., strides: Any = ..., padding: Any = ..., output_padding: Any = ..., groups: Any = ..., dilation: Any = ..., *, stride: Any = ...) -> Array:
    """Call nn.conv1d_transpose, with PyTorch's weight layout: (in, out / groups, ...)."""
def conv_transpose2d(data: Any, weight: Any, bias: Any = ..., strides: Any = ..., padding: Any = ..., output_padding: Any = ..., groups: Any = ..., dilation: Any = ..., *, stride: Any = ...) -> Array:
    """Call nn.conv2d_transpose, with PyTorch's weight layout: (in, out / groups, ...)."""
def conv_transpose3d(data: Any, weight: Any, bias: Any = ..., strides: Any = ..., padding: Any = ..., output_padding: Any = ..., groups: Any = ..., dilation: Any = ..., *, stride: Any = ...) -> Array:
    """Call nn.conv3d_transpose, with PyTorch's weight layout: (in, out / groups, ...)."""
def convolve(a: Any, v: Any, mode: Any = ...) -> Array:
    """Convolve two vectors."""
def copy(a: Any) -> Array:
    """Return a copy, whose elements may be assigned."""
def copysign(x1: Any, x2: Any) -> Array:
    """Return x1 with the sign of x2."""
def corrcoef(m: Any, y: Any = ..., rowvar: Any = ...) -> Array:
    """Return the correlation coefficients of variables, which are rows unless rowvar is False; f64."""
def correlate(a: Any, v: Any, mode: Any = ...) -> Array:
    """Correlate two vectors."""
def cos(x: Any) -> Array:
    """Compute the cosine of angles in radians."""
def cosh(x: Any) -> Array:
    """Compute the hyperbolic cosine."""
def cosine_similarity(x1: Any, x2: Any, axis: Any = ..., eps: Any = ..., *, dim: Any = ...) -> Array:
    """Compute the cosine similarity along an axis, by default 1."""
def count_nonzero(a: Any, axis: Any = ..., *, keepdims: Any = ...) -> Array:
    """Count the nonzero elements, i64."""
def cov(m: Any, y: Any = ..., rowvar: Any = ..., bias: Any = ..., ddof: Any = ...) -> Array:
    """Return the covariances of variables, which are rows unless rowvar is False; f64."""
def cross(a: Any, b: Any, *, axis: Any = ...) -> Array:
    """Compute the cross product of vectors with three components."""
def cross_entropy(input: Any, target: Any, weight: Any = ..., *, ignore_index: Any = ..., reduction: Any = ..., label_smoothing: Any = ..., predictions: Any = ..., targets: Any = ...) -> Array:
    """Compute the cross entropy of logits; targets are classes or probabilities."""
def cumprod(a: Any, axis: Any = ..., dtype: Any = ..., *, exclusive: Any = ...) -> Array:
    """Compute the cumulative product along an axis; without an axis, of the flattened tensor."""
def cumsum(a: Any, axis: Any = ..., dtype: Any = ..., *, exclusive: Any = ...) -> Array:
    """Compute the cumulative sum along an axis; without an axis, of the flattened tensor."""
def cumulative_prod(x: Any, *, axis: Any = ..., dtype: Any = ..., include_initial: Any = ...) -> Array:
    """Compute the cumulative product along an axis; `include_initial` puts that of nothing first."""
def cumulative_sum(x: Any, *, axis: Any = ..., dtype: Any = ..., include_initial: Any = ...) -> Array:
    """Compute the cumulative sum along an axis; `include_initial` puts that of nothing first."""
def custom_jvp(f: Any, tangent: Any, nondiff_argnums: Any = ..., each: Any = ...) -> Array:
    """Return f with a rule for tangents: (primals, tangents) to (result, tangent)."""
def custom_vjp(f: Any, forward: Any, backward: Any, nondiff_argnums: Any = ...) -> Array:
    """Return f with a gradient rule: forward gives (result, residuals), backward the gradients."""
def deg2rad(x: Any) -> Array:
    """Convert degrees to radians."""
def degrees(x: Any) -> Array:
    """Convert radians to degrees."""
def delete(arr: Any, obj: Any, axis: Any = ...) -> Array:
    """Return a tensor without the elements, or the rows, at the indices; flatten it if no axis is given."""
def det(a: Any) -> Array:
    """Compute the determinant (numpy.linalg.det)."""
def detach(x: Any) -> Array:
    """Return x; no gradient flows through it."""
def dft(re_data: Any, im_data: Any, inverse: Any = ...) -> Array:
    """Discrete Fourier transform along the last axis, as (real, imaginary)."""
def diag(v: Any, k: Any = ...) -> Array:
    """Return the diagonal of a matrix, or the diagonal matrix of a vector."""
def diag_indices(n: Any, ndim: Any = ...) -> Array:
    """Indices of the diagonal of a matrix."""
def diag_indices_from(arr: Any) -> Array:
    """Return the indices of the diagonal of a tensor."""
def diagflat(v: Any, k: Any = ...) -> Array:
    """Return a matrix with the elements of a tensor on a diagonal."""
def diagonal(a: Any, offset: Any = ..., axis1: Any = ..., axis2: Any = ...) -> Array:
    """Return a diagonal."""
def diff(a: Any, n: Any = ..., axis: Any = ..., prepend: Any = ..., append: Any = ...) -> Array:
    """Return the differences of adjacent elements."""
def digitize(x: Any, bins: Any, right: Any = ...) -> Array:
    """Return the index of the bin that each number falls into; bins must increase."""
def divide(x1: Any, x2: Any) -> Array:
    """Compute x1 / x2; f64 for integers and bools."""
def divmod(x1: Any, x2: Any) -> Array:
    """Compute (x1 // x2, x1 % x2)."""
def dot(a: Any, b: Any) -> Array:
    """Compute the product over the last axis of a and the second to last of b."""
def dropout(x: Any, p: Any = ..., training: Any = ..., *, key: Any = ..., rate: Any = ...) -> Array:
    """Return the tensor itself; with a key, zeros at random places, and the others divided by 1 - p."""
def dsplit(ary: Any, indices_or_sections: Any) -> Array:
    """Split into parts of equal size or at the given indices; return a tuple."""
def dstack(arrays: Any, *, dtype: Any = ...) -> Array:
    """Join along the third axis."""
def ediff1d(ary: Any) -> Array:
    """Return the differences of adjacent elements of the flattened tensor."""
def eig(a: Any) -> Array:
    """Compute eigenvalues and eigenvectors of a square matrix, as complex numbers (numpy.linalg.eig)."""
def eigh(a: Any, UPLO: Any = ...) -> Array:
    """Compute eigenvalues and eigenvectors of a symmetric or Hermitian matrix (numpy.linalg.eigh)."""
def eigvals(a: Any) -> Array:
    """Compute the eigenvalues of a square matrix, as complex numbers (numpy.linalg.eigvals)."""
def eigvalsh(a: Any, UPLO: Any = ...) -> Array:
    """Compute the eigenvalues of a symmetric or Hermitian matrix (numpy.linalg.eigvalsh)."""
def einsum(equation: Any, *operands: Any, optimize: Any = ...) -> Array:
    """Compute an Einstein summation."""
def einsum_path(equation: Any, *operands: Any, optimize: Any = ...) -> Array:
    """Return the order of the contractions of an Einstein summation, at compile time."""
def elu(x: Any, alpha: Any = ...) -> Array:
    """Return x, or alpha * (exp(x) - 1) where x is negative."""
def embedding(indices: Any, weight: Any, padding_idx: Any = ...) -> Array:
    """Look up rows of a table."""
def empty(shape: Any, dtype: Any = ...) -> Array:
    """Return a tensor of zeros; f64 unless a dtype is given."""
def empty_like(a: Any, dtype: Any = ...) -> Array:
    """Return a tensor of zeros, with the shape and dtype of another."""
def enumerate(iterable: Any, start: Any = ...) -> Any:
    """Return Python's enumerate, for a loop to iterate over."""
def equal(x1: Any, x2: Any) -> Array:
    """Compute x1 == x2."""
def erf(x: Any) -> Array:
    """Compute the error function."""
def erfc(x: Any) -> Array:
    """Compute 1 - erf(x)."""
def exp(x: Any) -> Array:
    """Compute e to the power of each element."""
def exp2(x: Any) -> Array:
    """Compute 2 to the power of each element."""
def expand_dims(a: Any, axis: Any, *, num_newaxis: Any = ...) -> Array:
    """Insert axes of size 1."""
def expm1(x: Any) -> Array:
    """Compute exp(x) - 1, accurate near 0."""
def extract(condition: Any, arr: Any) -> Array:
    """Return the elements where a condition is true."""
def eye(N: Any, M: Any = ..., k: Any = ..., dtype: Any = ..., *, m: Any = ...) -> Array:
    """Return a matrix with ones along a diagonal."""
def fabs(x: Any) -> Array:
    """Compute the absolute value; integers are converted to floats."""
def fast_exp(data: Any) -> Array:
    """e to the power of each element, approximated by a polynomial."""
def fast_tanh(data: Any) -> Array:
    """Hyperbolic tangent, approximated by a rational function."""
def fft(a: Any, n: Any = ..., axis: Any = ..., norm: Any = ...) -> Array:
    """Compute the discrete Fourier transform along an axis."""
def fft2(a: Any, s: Any = ..., axes: Any = ..., norm: Any = ...) -> Array:
    """Compute the transform along the last two axes."""
def fftfreq(n: Any, d: Any = ..., *, dtype: Any = ...) -> Array:
    """Return the frequencies of fft, of n samples d apart."""
def fftn(a: Any, s: Any = ..., axes: Any = ..., norm: Any = ...) -> Array:
    """Compute the transform along all axes, or those given."""
def fftshift(x: Any, axes: Any = ...) -> Array:
    """Move the frequency 0 to the middle of the axes."""
def fix(x: Any) -> Array:
    """Round towards zero."""
def fixed_point_multiply(data: Any, multiplier: Any, shift: Any) -> Array:
    """Product with multiplier * 2**(shift - 31) in integer arithmetic, rounded."""
def flatnonzero(a: Any) -> Array:
    """Return the indices of the nonzero elements of the flattened tensor."""
def flatten(a: Any, start_dim: Any = ..., end_dim: Any = ...) -> Array:
    """Flatten to one dimension, or PyTorch's range of dimensions."""
def flip(a: Any, axis: Any = ...) -> Array:
    """Reverse the order along axes."""
def fliplr(a: Any) -> Array:
    """Reverse the order along the second axis."""
def flipud(a: Any) -> Array:
    """Reverse the order along the first axis."""
def float_power(x1: Any, x2: Any) -> Array:
    """Compute x1 ** x2 in f64."""
def floor(x: Any) -> Array:
    """Round down."""
def floor_divide(x1: Any, x2: Any) -> Array:
    """Compute x1 // x2, rounded down."""
def floor_mod(lhs: Any, rhs: Any) -> Array:
    """Remainder with the sign of the divisor."""
def fmax(x1: Any, x2: Any) -> Array:
    """Return the larger of two elements; NaN only if both are NaN."""
def fmin(x1: Any, x2: Any) -> Array:
    """Return the smaller of two elements; NaN only if both are NaN."""
def fmod(x1: Any, x2: Any) -> Array:
    """Return the remainder with the sign of x1."""
def fold(data: Any, output_size: Any, kernel_size: Any, dilation: Any = ..., padding: Any = ..., stride: Any = ...) -> Array:
    """Add up windows, which are columns, to images."""
def frexp(x: Any) -> Array:
    """Return mantissas from 1/2 to 1, and exponents of 2, as i32."""
def fromfunction(function: Any, shape: Any, dtype: Any = ...) -> Array:
    """Return what a function gives for the indices of a shape."""
def full(shape: Any, fill_value: Any, dtype: Any = ..., *, data: Any = ...) -> Array:
    """Return a tensor filled with one value."""
def full_like(a: Any, fill_value: Any, dtype: Any = ...) -> Array:
    """Return a tensor filled with one value, with the shape and dtype of another."""
def gather(data: Any, axis: Any, indices: Any) -> Array:
    """At each position, the element of data whose index along the axis stands there."""
def gather_nd(data: Any, indices: Any, batch_dims: Any = ..., index_rank: Any = ...) -> Array:
    """Elements or slices of data at indices whose coordinates lie along the first axis."""
def gcd(x1: Any, x2: Any) -> Array:
    """Return the greatest common divisor of integers."""
def gelu(x: Any, *, approximate: Any = ...) -> Array:
    """Multiply x by the cumulative normal distribution; approximate="tanh" is supported."""
def geomspace(start: Any, stop: Any, num: Any = ..., endpoint: Any = ..., dtype: Any = ...) -> Array:
    """Return a geometric progression."""
def glu(x: Any, axis: Any = ..., *, dim: Any = ...) -> Array:
    """Multiply one half by the sigmoid of the other half."""
def gradient(f: Any, step: Any = ..., *, axis: Any = ...) -> Array:
    """Compute the gradient by central differences."""
def greater(x1: Any, x2: Any) -> Array:
    """Compute x1 > x2."""
def greater_equal(x1: Any, x2: Any) -> Array:
    """Compute x1 >= x2."""
def grid(*stops: Any) -> Any:
    """Ranges inside one another, as nested loops."""
def group_norm(data: Any, num_groups: Any = ..., weight: Any = ..., bias: Any = ..., eps: Any = ..., *, gamma: Any = ..., beta: Any = ..., axis: Any = ..., epsilon: Any = ..., center: Any = ..., scale: Any = ...) -> Array:
    """Normalize over groups of channels."""
def gru(input: Any, hx: Any = ..., w_ih: Any = ..., w_hh: Any = ..., b_ih: Any = ..., b_hh: Any = ..., *, batch_first: Any = ..., bidirectional: Any = ..., bias_ih: Any = ..., bias_hh: Any = ...) -> Array:
    """Return (output, h) of gated recurrent units."""
def gru_cell(input: Any, hx: Any = ..., w_ih: Any = ..., w_hh: Any = ..., b_ih: Any = ..., b_hh: Any = ..., *, bias_ih: Any = ..., bias_hh: Any = ...) -> Array:
    """Return h after one step of `gru`."""
def hamming(M: Any) -> Array:
    """The Hamming window of M points, f64."""
def hanning(M: Any) -> Array:
    """The Hanning window of M points, f64."""
def hardshrink(x: Any, lambd: Any = ...) -> Array:
    """Return x, or 0 where abs(x) is at most lambd."""
def hardsigmoid(x: Any) -> Array:
    """Compute x / 6 + 1 / 2, limited to 0 to 1."""
def hardswish(x: Any) -> Array:
    """Compute x * hardsigmoid(x)."""
def hardtanh(x: Any, min_val: Any = ..., max_val: Any = ...) -> Array:
    """Limit x to the range from min_val to max_val (-1 to 1)."""
def heaviside(x1: Any, x2: Any) -> Array:
    """Return 0, x2 or 1 for negative, zero or positive x1."""
def hfft(a: Any, n: Any = ..., axis: Any = ..., norm: Any = ...) -> Array:
    """Compute the real transform of half a signal."""
def histogram(a: Any, bins: Any = ..., range: Any = ..., density: Any = ..., weights: Any = ...) -> Array:
    """Count the elements in each bin, or add up their weights; returns the counts and the edges."""
def histogram2d(x: Any, y: Any, bins: Any = ..., range: Any = ..., density: Any = ..., weights: Any = ...) -> Array:
    """Count the points in each bin of a grid; returns the counts and both edges."""
def histogram_bin_edges(a: Any, bins: Any = ..., range: Any = ..., weights: Any = ...) -> Array:
    """Return the edges of the bins of a histogram."""
def histogramdd(sample: Any, bins: Any = ..., range: Any = ..., density: Any = ..., weights: Any = ...) -> Array:
    """Count the points in each bin of a grid of several axes; returns the counts and a list of edges."""
def hsplit(ary: Any, indices_or_sections: Any) -> Array:
    """Split into parts of equal size or at the given indices; return a tuple."""
def hstack(arrays: Any, *, dtype: Any = ...) -> Array:
    """Join along the second axis; vectors along the first."""
def huber_loss(input: Any, target: Any, delta: Any = ..., *, reduction: Any = ...) -> Array:
    """Compute the squared error below delta and the absolute error above."""
def hypot(x1: Any, x2: Any) -> Array:
    """Compute sqrt(x1 ** 2 + x2 ** 2) without overflow."""
def i0(x: Any) -> Array:
    """Compute the modified Bessel function of order 0."""
def identity(n: Any, dtype: Any = ...) -> Array:
    """Return the identity matrix."""
def ifft(a: Any, n: Any = ..., axis: Any = ..., norm: Any = ...) -> Array:
    """Compute the inverse discrete Fourier transform along an axis."""
def ifft2(a: Any, s: Any = ..., axes: Any = ..., norm: Any = ...) -> Array:
    """Compute the inverse along the last two axes."""
def ifftn(a: Any, s: Any = ..., axes: Any = ..., norm: Any = ...) -> Array:
    """Compute the inverse along all axes, or those given."""
def ifftshift(x: Any, axes: Any = ...) -> Array:
    """Move the frequency 0 back to the front of the axes."""
def ihfft(a: Any, n: Any = ..., axis: Any = ..., norm: Any = ...) -> Array:
    """Compute the inverse of hfft."""
def imag(val: Any) -> Array:
    """Return the imaginary part of each element."""
def indices(dimensions: Any) -> Array:
    """Coordinates of a grid of a shape, as one tensor."""
def inner(a: Any, b: Any) -> Array:
    """Compute the product over the last axes of both."""
def insert(arr: Any, obj: Any, values: Any, axis: Any = ...) -> Array:
    """Insert values before an index; flatten the tensor if no axis is given."""
def instance_norm(data: Any, gamma: Any = ..., beta: Any = ..., axis: Any = ..., epsilon: Any = ..., *, weight: Any = ..., bias: Any = ..., eps: Any = ..., center: Any = ..., scale: Any = ...) -> Array:
    """Normalize over each channel."""
def interp(x: Any, xp: Any, fp: Any, left: Any = ..., right: Any = ...) -> Array:
    """Interpolate piecewise linearly, in f64."""
def interpolate(data: Any, size: Any = ..., scale_factor: Any = ..., mode: Any = ..., align_corners: Any = ...) -> Array:
    """Resize images."""
def intersect1d(ar1: Any, ar2: Any, assume_unique: Any = ...) -> Array:
    """Return the distinct elements that both have."""
def inv(a: Any) -> Array:
    """Compute the inverse of a matrix (numpy.linalg.inv)."""
def invert(x: Any) -> Array:
    """Compute ~x."""
def invert_permutation(data: Any) -> Array:
    """The permutation that undoes a permutation."""
def irfft(a: Any, n: Any = ..., axis: Any = ..., norm: Any = ...) -> Array:
    """Compute the inverse of rfft: real numbers."""
def irfft2(a: Any, s: Any = ..., axes: Any = ..., norm: Any = ...) -> Array:
    """Compute the inverse of rfft2: real numbers."""
def irfftn(a: Any, s: Any = ..., axes: Any = ..., norm: Any = ...) -> Array:
    """Compute the inverse of rfftn: real numbers."""
def isclose(a: Any, b: Any, rtol: Any = ..., atol: Any = ..., equal_nan: Any = ...) -> Array:
    """Test whether corresponding elements are nearly equal."""
def iscomplex(x: Any) -> Array:
    """Test for an imaginary part."""
def iscomplexobj(x: Any) -> Array:
    """Return whether the dtype is complex, at compile time."""
def isfinite(x: Any) -> Array:
    """Test for finite numbers: neither infinite nor NaN."""
def isin(element: Any, test_elements: Any, *, assume_unique: Any = ..., invert: Any = ...) -> Array:
    """Test which elements are among others."""
def isinf(x: Any) -> Array:
    """Test for infinity of either sign."""
def isnan(x: Any) -> Array:
    """Test for NaN."""
def isneginf(x: Any) -> Array:
    """Test for -inf."""
def isposinf(x: Any) -> Array:
    """Test for inf."""
def isreal(x: Any) -> Array:
    """Test for an imaginary part of 0."""
def isrealobj(x: Any) -> Array:
    """Return whether the dtype is not complex, at compile time."""
def ix_(*args: Any) -> Array:
    """Vectors that index all their combinations: `x[ix_(i, j)]`."""
def jacfwd(f: Any, argnums: Any = ...) -> Array:
    """Return jacobian(f), by a directional derivative for each element of the parameters."""
def jacrev(f: Any, argnums: Any = ...) -> Array:
    """Return jacobian(f), by a pullback for each element of the result."""
def kaiser(M: Any, beta: Any) -> Array:
    """The Kaiser window of M points, f64."""
def kl_div(input: Any, target: Any, *, reduction: Any = ..., log_target: Any = ...) -> Array:
    """Compute the Kullback-Leibler divergence of log probabilities."""
def kron(a: Any, b: Any) -> Array:
    """Compute the Kronecker product."""
def l1_loss(input: Any, target: Any, *, reduction: Any = ...) -> Array:
    """Compute the absolute error."""
def layer_norm(data: Any, normalized_shape: Any = ..., weight: Any = ..., bias: Any = ..., eps: Any = ..., *, gamma: Any = ..., beta: Any = ..., axis: Any = ..., epsilon: Any = ..., center: Any = ..., scale: Any = ...) -> Array:
    """Normalize over the last dimensions."""
def layout_transform(data: Any, src_layout: Any, dst_layout: Any) -> Array:
    """Data in another layout, as from NCHW to NCHW16c."""
def lcm(x1: Any, x2: Any) -> Array:
    """Return the least common multiple of integers."""
def ldexp(x1: Any, x2: Any) -> Array:
    """Compute x1 * 2 ** x2."""
def leaky_relu(x: Any, negative_slope: Any = ..., *, alpha: Any = ...) -> Array:
    """Scale x by negative_slope (0.01) where it is negative."""
def left_shift(x1: Any, x2: Any) -> Array:
    """Compute x1 << x2."""
def less(x1: Any, x2: Any) -> Array:
    """Compute x1 < x2."""
def less_equal(x1: Any, x2: Any) -> Array:
    """Compute x1 <= x2."""
def lexsort(keys: Any, axis: Any = ...) -> Array:
    """Return the indices that sort by several keys, of which the last one counts most."""
def linear(data: Any, weight: Any, bias: Any = ..., *, units: Any = ..., out_dtype: Any = ...) -> Array:
    """Call nn.dense, followed by nn.bias_add if a bias is given."""
def linspace(start: Any, stop: Any, num: Any = ..., endpoint: Any = ..., retstep: Any = ..., dtype: Any = ...) -> Array:
    """Return evenly spaced numbers, by count."""
def list(iterable: Any = ...) -> Any:
    """Return the items as a tuple; their number must be known at compile time."""
def log(x: Any) -> Array:
    """Compute the natural logarithm."""
def log10(x: Any) -> Array:
    """Compute the logarithm to base 10."""
def log1p(x: Any) -> Array:
    """Compute log(1 + x), accurate near 0."""
def log2(x: Any) -> Array:
    """Compute the logarithm to base 2."""
def log_softmax(x: Any, axis: Any = ..., *, dim: Any = ...) -> Array:
    """Compute log(softmax(x))."""
def logaddexp(x1: Any, x2: Any) -> Array:
    """Compute log(exp(x1) + exp(x2)) without overflow."""
def logaddexp2(x1: Any, x2: Any) -> Array:
    """Compute log2(2 ** x1 + 2 ** x2) without overflow."""
def logical_and(x1: Any, x2: Any) -> Array:
    """Test whether both elements are true (nonzero)."""
def logical_not(x: Any) -> Array:
    """Test whether each element is false (zero)."""
def logical_or(x1: Any, x2: Any) -> Array:
    """Test whether either element is true (nonzero)."""
def logical_xor(x1: Any, x2: Any) -> Array:
    """Test whether exactly one element is true (nonzero)."""
def logsigmoid(x: Any) -> Array:
    """Compute log(sigmoid(x)), numerically stable."""
def logspace(start: Any, stop: Any, num: Any = ..., endpoint: Any = ..., base: Any = ..., dtype: Any = ...) -> Array:
    """Return numbers evenly spaced on a log scale."""
def logsumexp(x: Any, axis: Any = ..., keepdims: Any = ..., *, keepdim: Any = ..., dim: Any = ...) -> Array:
    """Compute log(sum(exp(x))), numerically stable."""
def lstm(input: Any, hx: Any = ..., w_ih: Any = ..., w_hh: Any = ..., b_ih: Any = ..., b_hh: Any = ..., *, batch_first: Any = ..., bidirectional: Any = ..., bias_ih: Any = ..., bias_hh: Any = ...) -> Array:
    """Return (output, (h, c)) of a long short-term memory."""
def lstm_cell(input: Any, hx: Any = ..., w_ih: Any = ..., w_hh: Any = ..., b_ih: Any = ..., b_hh: Any = ..., *, bias_ih: Any = ..., bias_hh: Any = ...) -> Array:
    """Return (h, c) after one step of `lstm`."""
def lstsq(a: Any, b: Any, rcond: Any = ...) -> Array:
    """Solve a @ x = b by least squares: the solution, residuals, rank and singular values (numpy.linalg.lstsq)."""
def map(function: Any, *iterables: Any) -> Any:
    """Return a list of what a function gives for each item."""
def mask_indices(n: Any, mask_func: Any, k: Any = ...) -> Array:
    """Return the indices where a function of masks, such as triu, keeps elements."""
def matmul(a: Any, b: Any) -> Array:
    """Compute a @ b."""
def matrix_norm(x: Any, keepdims: Any = ..., ord: Any = ...) -> Array:
    """Compute the norms of matrices, by default Frobenius' (numpy.linalg.matrix_norm)."""
def matrix_power(a: Any, n: Any) -> Array:
    """Compute the power of a square matrix (numpy.linalg.matrix_power)."""
def matrix_rank(a: Any, tol: Any = ..., hermitian: Any = ..., *, rtol: Any = ...) -> Array:
    """Compute the rank: the number of singular values above a tolerance (numpy.linalg.matrix_rank)."""
def matrix_set_diag(input: Any, diagonal: Any, k1: Any = ..., k2: Any = ..., super_diag_right_align: Any = ..., sub_diag_right_align: Any = ...) -> Array:
    """Matrices with some of their diagonals replaced."""
def matrix_transpose(a: Any) -> Array:
    """Swap the last two axes."""
def matvec(x1: Any, x2: Any) -> Array:
    """Compute the products of matrices and vectors."""
def max(a: Any, axis: Any = ..., *more: Any, keepdims: Any = ..., initial: Any = ..., where: Any = ..., exclude: Any = ..., key: Any = ..., default: Any = ..., keys: Any = ...) -> Array:
    """Return the largest element along axes; NaN if there is one."""
def max_pool1d(data: Any, kernel_size: Any = ..., strides: Any = ..., padding: Any = ..., dilation: Any = ..., ceil_mode: Any = ..., return_indices: Any = ..., *, pool_size: Any = ..., layout: Any = ..., out_layout: Any = ..., stride: Any = ...) -> Array:
    """Return the largest element of each window."""
def max_pool2d(data: Any, kernel_size: Any = ..., strides: Any = ..., padding: Any = ..., dilation: Any = ..., ceil_mode: Any = ..., return_indices: Any = ..., *, pool_size: Any = ..., layout: Any = ..., out_layout: Any = ..., stride: Any = ...) -> Array:
    """Return the largest element of each window."""
def max_pool3d(data: Any, kernel_size: Any = ..., strides: Any = ..., padding: Any = ..., dilation: Any = ..., ceil_mode: Any = ..., return_indices: Any = ..., *, pool_size: Any = ..., layout: Any = ..., out_layout: Any = ..., stride: Any = ...) -> Array:
    """Return the largest element of each window."""
def maximum(x1: Any, x2: Any) -> Array:
    """Return the larger of two elements; NaN if either is NaN."""
def mean(a: Any, axis: Any = ..., dtype: Any = ..., *, keepdims: Any = ..., where: Any = ..., exclude: Any = ...) -> Array:
    """Compute the arithmetic mean along axes; f64 for integers."""
def median(a: Any, axis: Any = ..., *, keepdims: Any = ...) -> Array:
    """Compute the median."""
def meshgrid(*arrays: Any, indexing: Any = ..., sparse: Any = ..., copy: Any = ...) -> Array:
    """Return the coordinate matrices of a grid."""
def mgrid(*slices: Any) -> Array:
    """Return the coordinates of a grid that is indexed with slices, as one tensor: `mgrid[0:n, 0:m]`."""
def min(a: Any, axis: Any = ..., *more: Any, keepdims: Any = ..., initial: Any = ..., where: Any = ..., exclude: Any = ..., key: Any = ..., default: Any = ..., keys: Any = ...) -> Array:
    """Return the smallest element along axes; NaN if there is one."""
def minimum(x1: Any, x2: Any) -> Array:
    """Return the smaller of two elements; NaN if either is NaN."""
def mish(x: Any) -> Array:
    """Compute x * tanh(softplus(x))."""
def mod(x1: Any, x2: Any) -> Array:
    """Compute x1 % x2, with the sign of x2."""
def modf(x: Any) -> Array:
    """Return the fractional and integral parts."""
def moveaxis(a: Any, source: Any, destination: Any) -> Array:
    """Move axes to other positions."""
def mse_loss(input: Any, target: Any, *, reduction: Any = ...) -> Array:
    """Compute the squared error."""
def multi_dot(arrays: Any) -> Array:
    """Compute the product of several matrices (numpy.linalg.multi_dot)."""
def multiply(x1: Any, x2: Any) -> Array:
    """Compute x1 * x2."""
def nan_to_num(x: Any, copy: Any = ..., nan: Any = ..., posinf: Any = ..., neginf: Any = ...) -> Array:
    """Replace NaN and infinities by numbers."""
def nanargmax(a: Any, axis: Any = ..., *, keepdims: Any = ...) -> Array:
    """Return the index of the largest element that is not NaN, i64."""
def nanargmin(a: Any, axis: Any = ..., *, keepdims: Any = ...) -> Array:
    """Return the index of the smallest element that is not NaN, i64."""
def nancumprod(a: Any, axis: Any = ..., dtype: Any = ...) -> Array:
    """Compute cumprod, ignoring NaN."""
def nancumsum(a: Any, axis: Any = ..., dtype: Any = ...) -> Array:
    """Compute cumsum, ignoring NaN."""
def nanmax(a: Any, axis: Any = ..., *, keepdims: Any = ..., exclude: Any = ...) -> Array:
    """Compute max, ignoring NaN."""
def nanmean(a: Any, axis: Any = ..., dtype: Any = ..., *, keepdims: Any = ..., where: Any = ..., exclude: Any = ...) -> Array:
    """Compute mean, ignoring NaN."""
def nanmedian(a: Any, axis: Any = ..., *, keepdims: Any = ...) -> Array:
    """Compute the median, ignoring NaN."""
def nanmin(a: Any, axis: Any = ..., *, keepdims: Any = ..., exclude: Any = ...) -> Array:
    """Compute min, ignoring NaN."""
def nanpercentile(a: Any, q: Any, axis: Any = ..., *, method: Any = ..., keepdims: Any = ...) -> Array:
    """Compute percentiles, with linear interpolation, ignoring NaN."""
def nanprod(a: Any, axis: Any = ..., dtype: Any = ..., *, keepdims: Any = ..., exclude: Any = ...) -> Array:
    """Compute prod, ignoring NaN."""
def nanquantile(a: Any, q: Any, axis: Any = ..., *, method: Any = ..., keepdims: Any = ...) -> Array:
    """Compute quantiles, with linear interpolation, ignoring NaN."""
def nanstd(a: Any, axis: Any = ..., dtype: Any = ..., *, ddof: Any = ..., keepdims: Any = ..., exclude: Any = ...) -> Array:
    """Compute std, ignoring NaN."""
def nansum(a: Any, axis: Any = ..., dtype: Any = ..., *, keepdims: Any = ..., exclude: Any = ...) -> Array:
    """Compute sum, ignoring NaN."""
def nanvar(a: Any, axis: Any = ..., dtype: Any = ..., *, ddof: Any = ..., keepdims: Any = ..., exclude: Any = ...) -> Array:
    """Compute var, ignoring NaN."""
def ndarray(shape: Any, dtype: Any = ...) -> Array:
    """Return a tensor of zeros; f64 unless a dtype is given."""
def ndarray_size(data: Any, dtype: Any = ...) -> Array:
    """The number of elements as a scalar."""
def ndindex(*stops: Any) -> Any:
    """Ranges inside one another, as nested loops."""
def negative(x: Any) -> Array:
    """Change the sign of each element."""
def nextafter(x1: Any, x2: Any) -> Array:
    """Return the next float after x1 towards x2."""
def nll_loss(input: Any, target: Any, weight: Any = ..., *, weights: Any = ..., ignore_index: Any = ..., reduction: Any = ...) -> Array:
    """Compute the negative log-likelihood of the classes."""
def nonzero(a: Any) -> Array:
    """Return the indices of nonzero elements: one i64 tensor of `?` elements per dimension."""
def norm(x: Any, ord: Any = ..., axis: Any = ..., keepdims: Any = ...) -> Array:
    """Compute the norm of vectors or matrices (numpy.linalg.norm)."""
def normalize(data: Any, p: Any = ..., axis: Any = ..., eps: Any = ..., *, dim: Any = ...) -> Array:
    """Divide by the norm along an axis, by default 1."""
def not_equal(x1: Any, x2: Any) -> Array:
    """Compute x1 != x2."""
def ogrid(*slices: Any) -> Array:
    """Return the coordinates of a grid that is indexed with slices, one axis each: `ogrid[0:n, 0:m]`."""
def one_hot(indices: Any, num_classes: Any = ..., off_value: Any = ..., depth: Any = ..., axis: Any = ..., dtype: Any = ..., *, on_value: Any = ...) -> Array:
    """Return one-hot vectors along a new axis."""
def ones(shape: Any, dtype: Any = ...) -> Array:
    """Return a tensor of ones; f64 unless a dtype is given."""
def ones_like(a: Any, dtype: Any = ...) -> Array:
    """Return a tensor of ones, with the shape and dtype of another."""
def ord(c: Any) -> Array:
    """Return the code point of a character."""
def outer(a: Any, b: Any) -> Array:
    """Compute the outer product."""
def packbits(a: Any, axis: Any = ..., bitorder: Any = ...) -> Array:
    """Pack truth values into the bits of bytes, padded with zeros."""
def pad(array: Any, pad_width: Any, mode: Any = ..., *, constant_values: Any = ..., pad_value: Any = ..., pad_mode: Any = ...) -> Array:
    """Pad the ends of axes."""
def parallel(start: Any, stop: Any = ..., step: Any = ...) -> Any:
    """Range whose rounds threads share; they must be independent."""
def partition(a: Any, kth: Any, axis: Any = ...) -> Array:
    """Put the elements at `kth` where sorting would put them; lower ones are before them."""
def percentile(a: Any, q: Any, axis: Any = ..., *, method: Any = ..., keepdims: Any = ...) -> Array:
    """Compute percentiles, with linear interpolation."""
def permute_dims(a: Any, axes: Any) -> Array:
    """Permute the axes."""
def piecewise(x: Any, condlist: Any, funclist: Any) -> Array:
    """Compute a function, or a number, for the elements of each condition."""
def pinv(a: Any, rcond: Any = ..., hermitian: Any = ..., *, rtol: Any = ...) -> Array:
    """Compute the pseudo-inverse (numpy.linalg.pinv)."""
def pixel_shuffle(data: Any, upscale_factor: Any) -> Array:
    """Rearrange channels into pixels."""
def pixel_unshuffle(data: Any, downscale_factor: Any) -> Array:
    """Rearrange pixels into channels."""
def poly(seq_of_zeros: Any) -> Array:
    """Return the coefficients of the polynomial with the given zeros."""
def polyadd(a1: Any, a2: Any) -> Array:
    """Return the sum of two polynomials."""
def polyder(p: Any, m: Any = ...) -> Array:
    """Return the derivative of a polynomial."""
def polydiv(u: Any, v: Any) -> Array:
    """Return the quotient and the remainder of two polynomials."""
def polyfit(x: Any, y: Any, deg: Any) -> Array:
    """Coefficients of the polynomial of a degree that fits best; the first is that of the highest power."""
def polyint(p: Any, m: Any = ..., k: Any = ...) -> Array:
    """Return an antiderivative of a polynomial."""
def polymul(a1: Any, a2: Any) -> Array:
    """Return the product of two polynomials, without zeros at its beginning."""
def polysub(a1: Any, a2: Any) -> Array:
    """Return the difference of two polynomials."""
def polyval(p: Any, x: Any) -> Array:
    """Value of a polynomial; the first coefficient is that of the highest power."""
def positive(x: Any) -> Array:
    """Return the tensor itself."""
def pow(x1: Any, x2: Any, mod: Any = ...) -> Array:
    """Compute x1 ** x2."""
def power(x1: Any, x2: Any) -> Array:
    """Compute x1 ** x2."""
def prange(start: Any, stop: Any = ..., step: Any = ...) -> Any:
    """numba's: `parallel` where that can be, else `range`."""
def prelu(x: Any, weight: Any, axis: Any = ...) -> Array:
    """Scale x by learned slopes where it is negative."""
def prod(a: Any, axis: Any = ..., dtype: Any = ..., *, keepdims: Any = ..., initial: Any = ..., where: Any = ..., exclude: Any = ...) -> Array:
    """Return the product along axes; 64-bit for integers."""
def ptp(a: Any, axis: Any = ..., *, keepdims: Any = ...) -> Array:
    """Return the range, max - min, along axes."""
def qr(a: Any, mode: Any = ...) -> Array:
    """Compute the QR decomposition, or R alone (numpy.linalg.qr)."""
def quantile(a: Any, q: Any, axis: Any = ..., *, method: Any = ..., keepdims: Any = ...) -> Array:
    """Compute quantiles, with linear interpolation."""
def r_(*arrays: Any) -> Array:
    """Join along the first axis: `r_[0, x]`."""
def rad2deg(x: Any) -> Array:
    """Convert radians to degrees."""
def radians(x: Any) -> Array:
    """Convert degrees to radians."""
def range(start: Any, stop: Any = ..., step: Any = ...) -> Any:
    """Return Python's range, for a loop to iterate over."""
def ravel(a: Any) -> Array:
    """Flatten to one dimension."""
def ravel_multi_index(multi_index: Any, dims: Any) -> Array:
    """Convert coordinates to flat indices."""
def real(val: Any) -> Array:
    """Return the real part of each element."""
def real_if_close(a: Any, tol: Any = ...) -> Array:
    """Return real numbers as they are."""
def reciprocal(x: Any) -> Array:
    """Compute 1 / x, for floats."""
def reinterpret(data: Any, dtype: Any) -> Array:
    """The bits of each element read as another dtype of the same width."""
def relu(x: Any) -> Array:
    """Compute max(x, 0)."""
def relu6(x: Any) -> Array:
    """Limit x to the range from 0 to 6."""
def remainder(x1: Any, x2: Any) -> Array:
    """Compute x1 % x2, with the sign of x2."""
def repeat(a: Any, repeats: Any, axis: Any = ...) -> Array:
    """Repeat each element."""
def reshape(a: Any, newshape: Any, *, allowzero: Any = ...) -> Array:
    """Change the shape; -1 stands for one dimension that is computed."""
def reshape_like(data: Any, shape_like: Any, lhs_begin: Any = ..., lhs_end: Any = ..., rhs_begin: Any = ..., rhs_end: Any = ...) -> Array:
    """The same elements in the shape of another tensor, or in a range of its dimensions."""
def resize(a: Any, new_shape: Any) -> Array:
    """Repeat a tensor until it fills a shape."""
def reverse(data: Any, axis: Any) -> Array:
    """The elements along an axis in reverse order."""
def reverse_sequence(data: Any, seq_lengths: Any, seq_axis: Any = ..., batch_axis: Any = ...) -> Array:
    """The first seq_lengths elements of each sequence of a batch in reverse order."""
def reversed(iterable: Any) -> Any:
    """Return Python's reversed, for a loop to iterate over."""
def rfft(a: Any, n: Any = ..., axis: Any = ..., norm: Any = ...) -> Array:
    """Compute the first half of the transform of real numbers."""
def rfft2(a: Any, s: Any = ..., axes: Any = ..., norm: Any = ...) -> Array:
    """Compute rfft along the last axis, fft before it."""
def rfftfreq(n: Any, d: Any = ..., *, dtype: Any = ...) -> Array:
    """Return the frequencies of rfft."""
def rfftn(a: Any, s: Any = ..., axes: Any = ..., norm: Any = ...) -> Array:
    """Compute rfft along the last axis, fft along others."""
def right_shift(x1: Any, x2: Any) -> Array:
    """Compute x1 >> x2."""
def rint(x: Any) -> Array:
    """Round to the nearest integer, halves to even."""
def rms_norm(data: Any, normalized_shape: Any = ..., weight: Any = ..., eps: Any = ..., *, axis: Any = ..., epsilon: Any = ...) -> Array:
    """Normalize by the root mean square."""
def rnn(input: Any, hx: Any = ..., w_ih: Any = ..., w_hh: Any = ..., b_ih: Any = ..., b_hh: Any = ..., *, nonlinearity: Any = ..., batch_first: Any = ..., bidirectional: Any = ..., bias_ih: Any = ..., bias_hh: Any = ...) -> Array:
    """Return (output, h) of tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)."""
def rnn_cell(input: Any, hx: Any = ..., w_ih: Any = ..., w_hh: Any = ..., b_ih: Any = ..., b_hh: Any = ..., *, nonlinearity: Any = ..., bias_ih: Any = ..., bias_hh: Any = ...) -> Array:
    """Return h after one step of `rnn`."""
def roll(a: Any, shift: Any, axis: Any = ...) -> Array:
    """Shift cyclically along axes."""
def rollaxis(a: Any, axis: Any, start: Any = ...) -> Array:
    """Move an axis before another."""
def roots(p: Any) -> Array:
    """Return the zeros of a polynomial, as complex numbers."""
def rot90(a: Any, k: Any = ..., axes: Any = ...) -> Array:
    """Rotate by multiples of 90 degrees in a plane of two axes."""
def round(a: Any, decimals: Any = ..., *, ndigits: Any = ...) -> Array:
    """Round to the given number of decimals, halves to even."""
def row_stack(arrays: Any, *, dtype: Any = ...) -> Array:
    """Do as vstack does."""
def rsqrt(x: Any) -> Array:
    """Compute 1 / sqrt(x)."""
def scaled_dot_product_attention(query: Any, key: Any, value: Any, attn_mask: Any = ..., dropout_p: Any = ..., is_causal: Any = ..., scale: Any = ..., *, mask: Any = ...) -> Array:
    """Compute softmax(q @ k.T * scale + mask) @ v."""
def scan(f: Any, init: Any, xs: Any = ..., length: Any = ...) -> Array:
    """Call f(carry, x) for each x in turn; return the last carry, and the stacked second results."""
def scatter_elements(data: Any, indices: Any, updates: Any, axis: Any = ..., reduction: Any = ...) -> Array:
    """Data with updates put at, or combined into, indices along an axis."""
def scatter_nd(data: Any, indices: Any, updates: Any, mode: Any = ...) -> Array:
    """Data with updates put at, or combined into, indices whose coordinates lie along the first axis."""
def searchsorted(a: Any, v: Any, side: Any = ..., sorter: Any = ..., *, right: Any = ..., dtype: Any = ...) -> Array:
    """Return the indices at which values can be inserted to keep the order, i64."""
def select(condlist: Any, choicelist: Any, default: Any = ...) -> Array:
    """Choose the first of several choices whose condition holds."""
def selu(x: Any) -> Array:
    """Compute the self-normalizing elu."""
def sequence_mask(data: Any, valid_length: Any, mask_value: Any = ..., axis: Any = ...) -> Array:
    """Data with mask_value behind the valid length of each sequence."""
def setdiff1d(ar1: Any, ar2: Any, assume_unique: Any = ...) -> Array:
    """Return the distinct elements that the second has not."""
def setxor1d(ar1: Any, ar2: Any, assume_unique: Any = ...) -> Array:
    """Return the distinct elements that only one of both has, in ascending order."""
def shape_of(data: Any, dtype: Any = ...) -> Array:
    """The shape as a tensor."""
def sigmoid(x: Any) -> Array:
    """Compute 1 / (1 + exp(-x))."""
def sign(x: Any) -> Array:
    """Return -1, 0 or 1 for negative, zero or positive elements."""
def signbit(x: Any) -> Array:
    """Test whether the sign bit is set."""
def silu(x: Any) -> Array:
    """Compute x * sigmoid(x)."""
def sin(x: Any) -> Array:
    """Compute the sine of angles in radians."""
def sinc(x: Any) -> Array:
    """Compute sin(pi x) / (pi x); f64 for integers."""
def sinh(x: Any) -> Array:
    """Compute the hyperbolic sine."""
def slice_like(data: Any, shape_like: Any, axes: Any = ...) -> Array:
    """The first elements of each axis, as many as another tensor has."""
def sliding_window(data: Any, axis: Any, window_shape: Any, strides: Any) -> Array:
    """Windows that slide over the axes from the given one on."""
def sliding_window_view(x: Any, window_shape: Any, axis: Any = ...) -> Array:
    """Return all windows of a size, which are the last axes."""
def slogdet(a: Any) -> Array:
    """Compute the sign and the logarithm of the absolute value of the determinant (numpy.linalg.slogdet)."""
def smooth_l1_loss(input: Any, target: Any, beta: Any = ..., *, reduction: Any = ...) -> Array:
    """Compute the squared error below beta and the absolute error above."""
def softmax(x: Any, axis: Any = ..., *, dim: Any = ...) -> Array:
    """Compute exp(x) divided by its sum along an axis, by default the last."""
def softmin(x: Any, axis: Any = ..., *, dim: Any = ...) -> Array:
    """Compute softmax(-x)."""
def softplus(x: Any, beta: Any = ..., threshold: Any = ...) -> Array:
    """Compute log(1 + exp(x)), numerically stable."""
def softshrink(x: Any, lambd: Any = ...) -> Array:
    """Move x towards 0 by lambd."""
def softsign(x: Any) -> Array:
    """Compute x / (1 + abs(x))."""
def solve(a: Any, b: Any) -> Array:
    """Solve a @ x = b for x (numpy.linalg.solve)."""
def sort(a: Any, axis: Any = ..., *, is_ascend: Any = ..., kind: Any = ..., stable: Any = ..., descending: Any = ...) -> Array:
    """Sort in ascending order, NaN last."""
def sort_complex(a: Any) -> Array:
    """Sort by real, then by imaginary parts, as complex numbers."""
def sorted(iterable: Any, *, key: Any = ..., reverse: Any = ..., keys: Any = ...) -> Array:
    """Return a list of the items in ascending order."""
def spacing(x: Any) -> Array:
    """Return the distance to the next float away from 0."""
def sparse_to_dense(sparse_indices: Any, output_shape: Any, sparse_values: Any, default_value: Any = ...) -> Array:
    """A tensor with values at the given indices and a default elsewhere."""
def split(ary: Any, indices_or_sections: Any, axis: Any = ...) -> Array:
    """Split into parts of equal size or at the given indices; return a tuple."""
def sqrt(x: Any) -> Array:
    """Compute the square root."""
def square(x: Any) -> Array:
    """Compute x * x."""
def squeeze(a: Any, axis: Any = ..., *, dim: Any = ...) -> Array:
    """Remove axes of size 1."""
def stack(arrays: Any, axis: Any = ..., *, dtype: Any = ..., dim: Any = ...) -> Array:
    """Join along a new axis."""
def std(a: Any, axis: Any = ..., dtype: Any = ..., *, ddof: Any = ..., keepdims: Any = ..., mean: Any = ..., correction: Any = ..., unbiased: Any = ..., exclude: Any = ...) -> Array:
    """Compute the standard deviation along axes."""
def stft(data: Any, n_fft: Any, hop_length: Any = ..., win_length: Any = ..., window: Any = ..., normalized: Any = ..., onesided: Any = ...) -> Array:
    """Short-time Fourier transform."""
def stop_gradient(x: Any) -> Array:
    """Return x; no gradient flows through it."""
def str(object: Any) -> Array:
    """Return a number that is known as a string."""
def strided_set(data: Any, v: Any, begin: Any, end: Any, strides: Any) -> Array:
    """Data with v put into a strided slice."""
def strided_slice(data: Any, begin: Any, end: Any, strides: Any = ..., axes: Any = ..., slice_mode: Any = ...) -> Array:
    """Every n-th element of a range of each axis."""
def subtract(x1: Any, x2: Any) -> Array:
    """Compute x1 - x2."""
def sum(a: Any, axis: Any = ..., dtype: Any = ..., *, keepdims: Any = ..., initial: Any = ..., where: Any = ..., exclude: Any = ...) -> Array:
    """Return the sum along axes; 64-bit for integers."""
def svd(a: Any, full_matrices: Any = ..., compute_uv: Any = ..., hermitian: Any = ...) -> Array:
    """Compute the singular value decomposition (u, s, vh), or s alone (numpy.linalg.svd)."""
def svdvals(a: Any) -> Array:
    """Compute singular values (numpy.linalg.svdvals)."""
def swapaxes(a: Any, axis1: Any, axis2: Any) -> Array:
    """Swap two axes."""
def swish(x: Any) -> Array:
    """Compute x * sigmoid(x)."""
def take(a: Any, indices: Any, axis: Any = ..., mode: Any = ..., *, batch_dims: Any = ...) -> Array:
    """Take elements, or slices along an axis, at the given indices."""
def take_along_axis(arr: Any, indices: Any, axis: Any = ..., *, dim: Any = ...) -> Array:
    """Take one element for each index along an axis."""
def tan(x: Any) -> Array:
    """Compute the tangent of angles in radians."""
def tanh(x: Any) -> Array:
    """Compute the hyperbolic tangent."""
def tanhshrink(x: Any) -> Array:
    """Compute x - tanh(x)."""
def tensordot(a: Any, b: Any, axes: Any = ...) -> Array:
    """Compute the product over the given axes."""
def tensorinv(a: Any, ind: Any = ...) -> Array:
    """Compute the inverse of a map between tensors (numpy.linalg.tensorinv)."""
def tensorsolve(a: Any, b: Any) -> Array:
    """Solve tensordot(a, x, x.ndim) = b for x (numpy.linalg.tensorsolve)."""
def threshold(x: Any, threshold: Any, value: Any) -> Array:
    """Return x where it is above the threshold, else value."""
def tile(A: Any, reps: Any) -> Array:
    """Repeat the whole tensor."""
def tiled(*stops_and_sizes: Any) -> Any:
    """The same in tiles: first the numbers of rounds, then the sizes of a tile."""
def topk(data: Any, k: Any = ..., axis: Any = ..., ret_type: Any = ..., is_ascend: Any = ..., dtype: Any = ...) -> Array:
    """The k largest (or smallest) elements along an axis and their indices."""
def trace(a: Any, offset: Any = ..., axis1: Any = ..., axis2: Any = ..., dtype: Any = ...) -> Array:
    """Sum a diagonal."""
def transpose(a: Any, axes: Any = ...) -> Array:
    """Permute the axes; reverse them if none are given."""
def trapezoid(y: Any, x: Any = ..., dx: Any = ..., axis: Any = ...) -> Array:
    """Integrate by the trapezoidal rule."""
def tree_map(f: Any, tree: Any, *rest: Any) -> Array:
    """Apply f to each tensor of nested tuples and records, or to those at the same place of several."""
def tri(N: Any, M: Any = ..., k: Any = ..., dtype: Any = ...) -> Array:
    """Return a matrix with ones at and below a diagonal."""
def tril(m: Any, k: Any = ..., *, diagonal: Any = ...) -> Array:
    """Return the lower triangle."""
def tril_indices(n: Any, k: Any = ..., m: Any = ...) -> Array:
    """Rows and columns of the lower triangle of a matrix."""
def tril_indices_from(arr: Any, k: Any = ...) -> Array:
    """Return the indices of the lower triangle of a matrix."""
def trilu(data: Any, k: Any, upper: Any = ...) -> Array:
    """The upper or lower triangles of matrices, zero elsewhere."""
def trim_zeros(filt: Any, trim: Any = ...) -> Array:
    """Return a vector without the zeros at its ends, or at the front (f) or the back (b) alone."""
def triu(m: Any, k: Any = ..., *, diagonal: Any = ...) -> Array:
    """Return the upper triangle."""
def triu_indices(n: Any, k: Any = ..., m: Any = ...) -> Array:
    """Rows and columns of the upper triangle of a matrix."""
def triu_indices_from(arr: Any, k: Any = ...) -> Array:
    """Return the indices of the upper triangle of a matrix."""
def true_divide(x1: Any, x2: Any) -> Array:
    """Compute x1 / x2; f64 for integers and bools."""
def trunc(x: Any) -> Array:
    """Round towards zero."""
def trunc_divide(lhs: Any, rhs: Any) -> Array:
    """Quotient truncated towards zero."""
def trunc_mod(lhs: Any, rhs: Any) -> Array:
    """Remainder with the sign of the dividend."""
def unfold(data: Any, kernel_size: Any, dilation: Any = ..., padding: Any = ..., stride: Any = ...) -> Array:
    """Return the windows of images as columns."""
def union1d(ar1: Any, ar2: Any, assume_unique: Any = ...) -> Array:
    """Return the distinct elements of both, in ascending order."""
def unique(ar: Any, return_index: Any = ..., return_inverse: Any = ..., return_counts: Any = ..., axis: Any = ..., *, equal_nan: Any = ..., sorted: Any = ...) -> Array:
    """Return the distinct elements in ascending order, `?` of them; one NaN."""
def unique_all(ar: Any) -> Array:
    """Return (distinct elements, where each occurs first, which of them each element is, counts)."""
def unique_counts(ar: Any) -> Array:
    """Return (distinct elements, how often they occur)."""
def unique_inverse(ar: Any) -> Array:
    """Return (distinct elements, which of them each element is)."""
def unique_values(ar: Any) -> Array:
    """Return the distinct elements in ascending order; each NaN is one."""
def unpackbits(a: Any, axis: Any = ..., *, bitorder: Any = ...) -> Array:
    """Return the bits of bytes as zeros and ones."""
def unravel_index(indices: Any, shape: Any) -> Array:
    """Convert flat indices to a tuple of coordinates."""
def unrolled(start: Any, stop: Any = ..., step: Any = ...) -> Any:
    """Range whose rounds are written out."""
def unstack(x: Any, *, axis: Any = ...) -> Array:
    """Split along an axis into as many tensors as it is long; return a tuple."""
def unwrap(p: Any, discont: Any = ..., axis: Any = ..., *, period: Any = ...) -> Array:
    """Remove jumps of angles, or of values with another period, along an axis."""
def upsample(data: Any, size: Any = ..., scale_factor: Any = ..., mode: Any = ..., align_corners: Any = ...) -> Array:
    """Resize images."""
def vander(x: Any, N: Any = ..., increasing: Any = ...) -> Array:
    """Return the Vandermonde matrix, with powers as columns."""
def var(a: Any, axis: Any = ..., dtype: Any = ..., *, ddof: Any = ..., keepdims: Any = ..., mean: Any = ..., correction: Any = ..., unbiased: Any = ..., exclude: Any = ...) -> Array:
    """Compute the variance along axes."""
def variance(a: Any, axis: Any = ..., dtype: Any = ..., *, ddof: Any = ..., keepdims: Any = ..., mean: Any = ..., correction: Any = ..., unbiased: Any = ..., exclude: Any = ..., with_mean: Any = ...) -> Array:
    """Compute the variance along axes, as var does."""
def vdot(a: Any, b: Any) -> Array:
    """Compute the dot product of the flattened tensors; of a, the complex conjugate."""
def vecdot(a: Any, b: Any, *, axis: Any = ...) -> Array:
    """Compute the dot products of vectors along an axis; of a, the complex conjugate."""
def vecmat(x1: Any, x2: Any) -> Array:
    """Compute the products of vectors and matrices; complex vectors are conjugated."""
def vector_norm(x: Any, axis: Any = ..., keepdims: Any = ..., ord: Any = ...) -> Array:
    """Compute the norm of vectors along axes, or of all elements (numpy.linalg.vector_norm)."""
def vectorize(pyfunc: Any, otypes: Any = ...) -> Array:
    """Return a function that maps a function over the elements of tensors."""
def vectorized(start: Any, stop: Any = ..., step: Any = ...) -> Any:
    """Range of an innermost loop whose rounds are independent, and become vectors."""
def vsplit(ary: Any, indices_or_sections: Any) -> Array:
    """Split into parts of equal size or at the given indices; return a tuple."""
def vstack(arrays: Any, *, dtype: Any = ...) -> Array:
    """Join along the first axis; vectors become rows."""
def where(condition: Any, x: Any = ..., y: Any = ...) -> Array:
    """Choose x where the condition holds and y elsewhere."""
def zeros(shape: Any, dtype: Any = ...) -> Array:
    """Return a tensor of zeros; f64 unless a dtype is given."""
def zeros_like(a: Any, dtype: Any = ...) -> Array:
    """Return a tensor of zeros, with the shape and dtype of another."""
def zip(*iterables: Any, strict: Any = ...) -> Any:
    """Return Python's zip, for a loop to iterate over."""
