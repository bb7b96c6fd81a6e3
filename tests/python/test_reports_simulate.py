"""The programs of the reports and the blocks of models by simulated kernels: right, or refused."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).parent
FILES = ["test_reports.py", "test_reports_numbers.py", "test_reports_segments.py", "test_blocks.py"]

# Tests of which some fusion is refused as long as one of several parts is not simulated.
REFUSED = {
    "test_a_mask_of_rows_is_one_in_all_parts",
    "test_a_scalar_input_that_only_the_last_part_needs",
    "test_a_value_is_rounded_where_the_program_says_alone",
    "test_agrees_for_sizes_left_open",
    "test_agrees_with_torch",
    "test_batched_products_of_one_column_and_their_sums",
    "test_bias_gelu_and_the_largest_magnitude",
    "test_cat_of_two_column_sums",
    "test_dimension_that_a_crop_made_one_is_summed",
    "test_empty_full_and_slices",
    "test_gradient_of_rotary_positions",
    "test_half_input_used_through_its_cast_only",
    "test_layer_norm_of_sizes_read_from_the_input",
    "test_linear_gelu_linear",
    "test_lookup_in_a_table_repeated_in_a_batch",
    "test_many_definitions_in_many_threads",
    "test_matrix_products_of_any_size",
    "test_max_and_min_show_nan",
    "test_numbers_of_a_seed_do_not_depend_on_cuts",
    "test_numbers_without_a_seed_do_not_depend_on_cuts",
    "test_one_input_cast_twice_and_reduced_along_different_dimensions",
    "test_parts_that_read_what_another_overwrites",
    "test_prefix_sums_of_integers",
    "test_products_of_slices_and_cats",
    "test_queries_keys_and_values_of_one_buffer",
    "test_reshape_to_sizes_given_as_numbers",
    "test_scalars_that_several_parts_need",
    "test_size_zero_chains_of_cat",
    "test_size_zero_diagonal",
    "test_slice_cut_add_pad",
    "test_slice_of_a_computed_value",
    "test_slice_of_an_odd_width_after_an_update_in_place",
    "test_sliced_to_one_and_squeezed",
    "test_slices_of_full_in_two_types",
    "test_softmax_of_a_slice_of_a_mask",
    "test_stack_by_cat_of_new_dimensions",
    "test_sum_of_lookups_and_normalisation",
    "test_sum_over_expanded_dimensions",
    "test_tensors_without_dimensions",
    "test_the_example_runs",
    "test_thirty_layers",
    "test_two_dependent_row_means_are_the_same_every_time",
}


def test_right_or_refused(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    done = subprocess.run(
        [*command, *(HERE / name for name in FILES)],
        cwd=HERE.parents[1],
        env=os.environ | {"NVFUSER_ENABLE": "simulate"},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert report.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    cases = list(ElementTree.parse(report).iter("testcase"))
    assert len(cases) > 250
    refused = set()
    for case in cases:
        for problem in [*case.iter("failure"), *case.iter("error")]:
            text = problem.get("message", "") + (problem.text or "")
            assert "nvfuser_go.errors.Unsupported: no scheduler takes this fusion" in text, case.get("name") + text
            refused.add(case.get("name").partition("[")[0])
    assert refused <= REFUSED, sorted(refused - REFUSED)
