"""The encoder's graph with matrix products of bytes, which take about half the time of float32.

Activations are quantised as they come (one scale and zero point for each tensor), weights when the model is loaded (one
scale for each output channel; see `matching.onnx_runtime`). So this graph, too, takes its weights from
`model.safetensors`.
"""

from typing import Any

from mambamatcher.model.saved import INT8, SCALE, WEIGHTS, sealed

FLOAT_PRODUCTS = 24  # the first ones, of four blocks, stay float32: rounding their activations changes features most


def with_int8_products(content: bytes, float_products: int = FLOAT_PRODUCTS) -> bytes | None:
    """Replace products with a transposed weight matrix by products of bytes; everything else stays float32.

    Args:
        content: A graph as `encoder_graph` returns it.
        float_products: How many of the first products stay float32.

    Returns:
        The new graph, or None if there is no such product.
    """
    import onnx

    model = onnx.load_from_string(content)
    graph = model.graph
    transposed = {node.output[0]: node for node in graph.node if node.op_type == "Transpose"}
    weights = {each.name: each for each in graph.initializer if each.data_location == onnx.TensorProto.EXTERNAL}
    quantised: dict[str, list[str]] = {}  # by activation: bytes, scale and zero point
    nodes: list[Any] = []
    replaced: dict[str, Any] = {}
    products = 0
    for node in graph.node:
        turned = transposed.get(node.input[1]) if node.op_type == "MatMul" else None
        weight = None if turned is None else weights.get(turned.input[0])
        is_product = turned is not None and weight is not None and len(weight.dims) == 2
        products += is_product
        if not is_product or products <= float_products:
            nodes.append(node)
            continue
        assert weight is not None
        activation, output = node.input[0], node.output[0]
        if activation not in quantised:
            quantised[activation] = [f"{activation}_{part}" for part in ("bytes", "scale", "zero")]
            nodes.append(onnx.helper.make_node("DynamicQuantizeLinear", [activation], quantised[activation]))
        values, scale, zero = quantised[activation]
        key = weight.name
        replaced[key] = weight
        parts = {name: f"{output}_{name}" for name in ("weight", "sum", "float", "scale")}
        nodes += [
            onnx.helper.make_node("Transpose", [key + INT8], [parts["weight"]], perm=[1, 0]),
            onnx.helper.make_node("MatMulInteger", [values, parts["weight"], zero], [parts["sum"]]),
            onnx.helper.make_node("Cast", [parts["sum"]], [parts["float"]], to=onnx.TensorProto.FLOAT),
            onnx.helper.make_node("Mul", [scale, key + SCALE], [parts["scale"]]),
            onnx.helper.make_node("Mul", [parts["float"], parts["scale"]], [output]),
        ]
    if not replaced:
        return None
    _replace(graph.node, _used(nodes, {each.name for each in graph.output}))
    read = {name for node in graph.node for name in node.input}
    _replace(graph.initializer, [each for each in graph.initializer if each.name in read])
    for key, weight in replaced.items():
        for name, kind, shape in (
            (key + INT8, onnx.TensorProto.INT8, weight.dims),
            (key + SCALE, onnx.TensorProto.FLOAT, weight.dims[:1]),
        ):
            outside = graph.initializer.add(name=name, data_type=kind, dims=shape)
            outside.data_location = onnx.TensorProto.EXTERNAL
            outside.external_data.add(key="location", value=WEIGHTS)
    return sealed(model)


def _used(nodes: list[Any], outputs: set[str]) -> list[Any]:
    """Return the nodes that some other node or the output reads."""
    read = outputs | {name for node in nodes for name in node.input}
    return [node for node in nodes if read & set(node.output)]


def _replace(repeated: Any, values: list[Any]) -> None:
    kept = [each.__class__.FromString(each.SerializeToString()) for each in values]
    del repeated[:]
    repeated.extend(kept)
