"""What kernels are called: names as cuBLAS, cuDNN, CUTLASS, Eigen, TensorFlow and XLA give them."""

from __future__ import annotations

import re
import time

import pytest

from slowtrain.profile import framework_names

EIGEN = "void Eigen::internal::EigenMetaKernel<Eigen::TensorEvaluator<Eigen::TensorAssignOp<Eigen::TensorMap<"

# Name, number format, whether it is matrix work, whether on tensor cores.
MATRIX = (
    ("volta_sgemm_128x64_nn", "float32", True, False),
    ("ampere_sgemm_128x64_tn", "float32", True, False),
    ("volta_scudnn_128x64_relu_interior_nn_v1", "float32", True, False),
    ("volta_fp16_sgemm_fp16_128x64_nn", "float16", True, False),
    ("volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_nn_v1", "float16", True, True),
    ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_stages_32x1_tn", "float16", True, True),
    ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_nn", "bfloat16", True, True),
    ("cutlass_80_tensorop_s1688gemm_128x256_16x3_nn_align4", "tf32", True, True),
    ("cutlass_tensorop_f16_s16816dgrad_optimized_f16_128x256_32x3_unity_stride", "float16", True, True),
    ("sm80_xmma_dgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16", "tf32", True, True),
    ("sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize256x64x32", "float16", True, True),
    ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_ffma_aligna4", "float32", True, False),
    ("_ZN13cutlass_cudnn6KernelINS_4conv6kernelENS_10tfloat32_tENS_11MmaTensorOpI", "tf32", True, True),
    ("_ZN13cutlass_cudnn6KernelINS_4conv6kernelENS_6half_tENS_11MmaTensorOpI", "float16", True, True),
    ("void xmma_cudnn::gemm::kernel<xmma_cudnn::Ampere_hmma_fp32_traits>", "float16", True, True),
    ("void wgrad_alg0_engine_NHWC<float, 128, 5, 5, 3, 3, 3, false, 512>(int)", "float32", True, False),
    ("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NNT", "bfloat16", True, True),
    ("nvjet_sm90_hss_64x8_64x16_1x1_h_bz_splitK_NNT", "float16", True, True),
    ("nvjet_sss_tf32_128x256_TNT", "tf32", True, True),
    ("Cijk_Ailk_Bljk_BBS_BH_MT256x256x64_MI16x16x16x1_SN", "bfloat16", True, True),
    ("igemm_fwd_gtcx_nhwc_fp32_bx0", "float32", True, False),
    ("gemm_fusion_dot_general_1.kd", None, True, False),
    # None of these multiplies matrices.
    ("void cudnn::ops::convertTensor_kernel<float, float, float, (cudnnKernelDataType_t)2>", "float32", False, False),
    ("void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float)", "float32", False, False),
    ("void cudnn::ops::nchwToNhwcKernel<__half, __half, float, true>(int)", "float16", False, False),
    ("loop_convert_fusion.kd", None, False, False),
    (f"{EIGEN}Eigen::Tensor<Eigen::half>>, Eigen::TensorConversionOp<Eigen::half, float>>", "float16", False, False),
)  # fmt: skip


@pytest.mark.parametrize(("name", "precision", "matrix", "cores"), MATRIX, ids=[row[0][:40] for row in MATRIX])
def test_a_kernels_name_tells_its_work(name: str, precision: str | None, matrix: bool, cores: bool) -> None:
    assert framework_names.kernel_precision(name) == precision
    assert bool(re.search(framework_names.MATRIX_KERNEL, name)) is matrix
    assert bool(re.search(framework_names.TENSOR_CORE, name)) is cores


@pytest.mark.parametrize(
    ("name", "elementwise"),
    [
        ("Mul_GPU_DT_FLOAT_DT_FLOAT_kernel", True),
        ("GreaterEqual_GPU_DT_FLOAT_DT_BOOL_kernel", True),
        ("void tensorflow::functor::FillPhiloxRandomKernelLaunch<tensorflow::random::UniformDistribution>", True),
        (f"{EIGEN}Eigen::TensorCwiseBinaryOp<Eigen::internal::scalar_sum_op<float>>", True),
        (f"{EIGEN}Eigen::TensorReductionOp<Eigen::internal::SumReducer<float>>", False),
        ("loop_multiply_fusion", False),
        ("ampere_sgemm_128x64_tn", False),
        ("void tensorflow::functor::ApplyAdamKernel<float>(int)", False),
    ],
)
def test_elementwise_kernels(name: str, elementwise: bool) -> None:
    assert bool(re.search(framework_names.ELEMENTWISE_KERNEL, name)) is elementwise


def test_edges_of_a_graph_are_told_from_arguments() -> None:
    found = re.search(framework_names.GRAPH_EDGE, "#edge_name=edge_10286_cond_6/then/_72/cond_6/OptionalGetValue#")
    assert found is not None
    assert found[1] == "cond_6/then/_72/cond_6/OptionalGetValue"
    for other in ("arg_1", "ret_0", "memtype_41_RemoteCall", "copy"):
        assert re.search(framework_names.GRAPH_EDGE, f"#edge_name={other}#") is None


@pytest.mark.bench
def test_a_hostile_name_costs_no_time() -> None:
    """Patterns that look ahead from each of many beginnings would take hours for these."""
    assert hostile_names_s(40_000) < 3 * hostile_names_s(20_000), "twice the name takes twice the time"


def hostile_names_s(repeats: int) -> float:
    """CPU seconds to search all patterns in names that repeat one part so many times."""
    parts = ("xmma", "Cijk_", "ReluGrad", "_GPU_DT_", "EigenMetaKernel", "nvjet_sm1", "#edge_name=edge_1_", "#shape=(")
    hostile = [part * repeats + end for part in parts for end in ("", "ffma")]
    patterns = (framework_names.TENSOR_CORE, framework_names.MATRIX_KERNEL, framework_names.ELEMENTWISE_KERNEL,
                framework_names.FUSED_RNN_KERNEL, framework_names.KERNEL_ALIGNMENT, framework_names.XLA_WAIT,
                framework_names.GRAPH_EDGE, framework_names.ANNOTATED_SHAPES)  # fmt: skip
    begun = time.process_time()
    for text in hostile:
        framework_names.kernel_precision(text)
        for pattern in patterns:
            re.search(pattern, text)
    return time.process_time() - begun
