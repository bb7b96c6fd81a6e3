// Package calibration measures what package schedulers/model needs to know of a device, and
// keeps it in a file.
//
// Its central function is [Measure], which makes a [model.Machine] of times of kernels that
// copy, read, write, compute and wait, on a bench of the driver. [Write] writes it down,
// [Models] finds what was written for a device, and else makes the numbers up.
//
// Invariants: a device is measured only by Measure, so plans depend on files and on what a
// device says of itself, never on what else it does meanwhile; a file is complete or not
// there; one that cannot be believed is an error that names it.
//
// The package does not choose the folder, and does not estimate.
package calibration
