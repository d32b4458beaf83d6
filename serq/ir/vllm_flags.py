"""What vLLM 0.27.1 can be told and this model does not have, by what it would change.

``IGNORED`` cannot change what the scheduler decides. ``NOT_MODELLED`` may: it is refused where it is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_IGNORED: Final = {
    "is how the server is reached": """
        host port uds uvicorn_log_level ssl_keyfile ssl_certfile ssl_ca_certs api_key root_path
        allowed_origins allow_credentials served_model_name master_addr master_port config headless
        api_server_count log_config_file enable_ssl_refresh ssl_cert_reqs ssl_ciphers
        allowed_methods allowed_headers middleware disable_fastapi_docs enable_offline_docs
        disable_uvicorn_access_log enable_request_id_headers response_role
        data_parallel_address data_parallel_rpc_port data_parallel_backend shutdown_timeout
        data_parallel_supervisor_port disable_access_log_for_endpoints
        dp_supervisor_probe_failure_threshold dp_supervisor_probe_interval_s
        dp_supervisor_probe_timeout_s h11_max_header_count h11_max_incomplete_event_size
        enable_tokenizer_info_endpoint renderer_num_workers fail_on_environ_validation
        fingerprint_mode fingerprint_value""",
    "is how the model is loaded": """
        model model_weights tokenizer tokenizer_mode trust_remote_code allowed_local_media_path download_dir
        load_format safetensors_load_strategy safetensors_prefetch_num_threads safetensors_prefetch_block_size
        config_format hf_config_path hf_token hf_overrides revision code_revision tokenizer_revision
        ignore_patterns model_loader_extra_config use_tqdm_on_load pt_load_map_location model_impl
        max_parallel_loading_workers skip_tokenizer_init generation_config
        model_class_overrides allowed_media_domains allow_deprecated_quantization
        enable_ep_weight_filter""",
    "changes what a step takes, which `cost` says": """
        dtype quantization quantization_config enforce_eager tensor_parallel_size cudagraph_capture_sizes
        max_cudagraph_capture_size compilation_config attention_config attention_backend kernel_config
        disable_custom_all_reduce distributed_executor_backend enable_expert_parallel moe_backend
        linear_backend all2all_backend enable_eplb eplb_config enable_flashinfer_autotune optimization_level
        performance_mode disable_cascade_attn numa_bind numa_bind_nodes numa_bind_cpus device_ids worker_cls
        worker_extension_cls nnodes node_rank distributed_timeout_seconds
        cpu_distributed_timeout_seconds disable_nccl_for_dp_synchronization
        enable_bf16x3_router_gemm enable_flash_late_interaction expert_placement_strategy
        gdn_prefill_backend kda_prefill_backend ir_op_priority mamba_backend mamba_config
        mamba_ssu_algorithm mamba_cache_philox_rounds enable_mamba_cache_stochastic_rounding
        override_attention_dtype ray_workers_use_nsight use_fp64_gumbel dcp_comm_backend""",
    "is what `num_gpu_blocks` says directly": """
        gpu_memory_utilization kv_cache_memory_bytes kv_cache_dtype calculate_kv_scales""",
    "is what is logged and shown": """
        disable_log_stats disable_log_requests enable_log_requests max_log_len aggregate_engine_logging
        otlp_traces_endpoint collect_detailed_traces kv_cache_metrics kv_cache_metrics_sample
        cudagraph_metrics enable_layerwise_nvtx_tracing enable_mfu_metrics enable_logging_iteration_details
        show_hidden_metrics_for_version profiler_config
        enable_log_deltas enable_mm_processor_stats enable_per_request_metrics jit_monitor_mode
        jit_monitor_verbose log_error_stack""",
    "is what answers look like": """
        chat_template chat_template_content_format enable_auto_tool_choice tool_call_parser tool_parser_plugin
        reasoning_parser reasoning_parser_plugin max_logprobs logprobs_mode override_generation_config seed
        return_tokens_as_token_ids enable_prompt_tokens_details enable_server_load_tracking
        enable_force_include_usage stream_interval
        default_chat_template_kwargs trust_request_chat_template tool_server enable_log_outputs
        prefix_caching_hash_algo
        cohere_format cohere_is_reasoning_model exclude_tools_when_tool_choice_none""",
}

_NOT_MODELLED: Final = {
    "adapters are not modelled": """
        enable_lora max_loras max_lora_rank default_mm_loras fully_sharded_loras max_cpu_loras lora_dtype
        lora_target_modules lora_modules enable_tower_connector_lora specialize_active_lora
        enable_mixed_moe_lora_format enable_moe_shared_loras""",
    "multimodal input is not modelled": """
        language_model_only limit_mm_per_prompt enable_mm_embeds interleave_mm_strings media_io_kwargs
        mm_processor_kwargs mm_processor_cache_gb mm_processor_cache_type mm_encoder_only mm_encoder_tp_mode
        skip_mm_profiling video_pruning_rate disable_chunked_mm_input enable_prompt_embeds
        max_num_encoder_input_tokens encoder_cache_size ec_transfer_config
        mm_encoder_attn_backend mm_encoder_attn_dtype mm_encoder_fp8_scale_path
        mm_encoder_fp8_scale_save_margin mm_encoder_fp8_scale_save_path mm_hasher_algorithm
        mm_ipc_gpu_memory_gb mm_shm_cache_max_object_size_mb mm_tensor_ipc video_pruning_method""",
    "parallelism over contexts is not modelled": """
        prefill_context_parallel_size decode_context_parallel_size enable_dbo
        ubatch_size dbo_decode_token_threshold dbo_prefill_token_threshold dcp_kv_cache_interleave_size
        cp_kv_cache_interleave_size enable_elastic_ep""",
    "every rank stands in the program: write a family of stages": """
        data_parallel_rank data_parallel_start_rank data_parallel_size_local data_parallel_hybrid_lb
        data_parallel_external_lb data_parallel_multi_port_external_lb""",
    "write the groups of the cache: `group KIND { … }`": """
        disable_sliding_window disable_hybrid_kv_cache_manager mamba_block_size mamba_cache_mode
        mamba_cache_dtype mamba_ssm_cache_dtype kv_cache_dtype_skip_layers kv_sharing_fast_prefill
        sliding_window""",
    "offloading is not modelled": """
        offload_backend cpu_offload_gb cpu_offload_params offload_group_size offload_num_in_group
        offload_prefetch_step offload_params kv_offloading_size kv_offloading_backend swap_space""",
    "write `waiting …;` or `scheduler …;` for what it configures": """
        additional_config scheduler_cls""",
    "it is no part of the model": """
        runner convert diffusion_config pooler_config kv_events_config
        structured_outputs_config logits_processors io_processor_plugin enable_sleep_mode use_replayssm
        replayssm_buffer_len tokens_only enable_return_routed_experts reasoning_config
        fault_tolerance_config enable_fault_tolerance weight_transfer_config
        enable_cumem_allocator""",
}

_ELSEWHERE: Final = {
    "policy": "write `waiting priority;`",
    "scheduling_policy": "write `waiting priority;`",
    "num_gpu_blocks_override": "write `num_gpu_blocks …;`",
    "speculative_config": "write `speculative METHOD { k …; accept …; }`",
    "kv_transfer_config": "write `kv_connector NAME; kv_role …;` and declare the connector",
    "reserve_full_isl": "write `scheduler_reserve_full_isl …;`",
}
"""Names under which vLLM or its recordings have what a stage writes otherwise."""


def _by_name(groups: Mapping[str, str]) -> dict[str, str]:
    return {name: reason for reason, names in groups.items() for name in names.split()}


IGNORED: Final[Mapping[str, str]] = MappingProxyType(_by_name(_IGNORED))
"""Option -> why a model of the scheduler can do without it."""

NOT_MODELLED: Final[Mapping[str, str]] = MappingProxyType(_by_name(_NOT_MODELLED))
"""Option -> what is missing."""

REFUSED_IN_STAGE: Final[Mapping[str, str]] = MappingProxyType(
    {**{name: f"it {why}" for name, why in IGNORED.items()}, **NOT_MODELLED, **_ELSEWHERE}
)
"""Option of vLLM -> why it cannot stand in a stage, or what to write for it."""
