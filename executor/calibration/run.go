package calibration

import (
	"fmt"

	"nvfuser_go/core"
	"nvfuser_go/cudadrv"
	"nvfuser_go/schedulers/model"
)

// Run measures a device and writes what it found to a file: at path, or if that is empty where
// [Models] looks for it below kept, the folder of what is kept.
//
// Errors: InvalidArgument if there is no such device, no place for the file, or it cannot be
// written; Unsupported if the device cannot be measured.
func Run(d cudadrv.Driver, device int, path, kept string) (string, model.Machine, error) {
	cannot := func(err error) (string, model.Machine, error) {
		return "", model.Machine{}, &core.Unsupported{What: fmt.Sprintf("calibrate(): cannot measure cuda:%d", device),
			Refusals: []core.Refusal{{By: "cuda", Rule: "driver", Sentence: err.Error()}}}
	}
	n, err := d.Devices()
	if err != nil {
		return cannot(err)
	}
	if device < 0 || device >= n {
		return "", model.Machine{}, core.InvalidArgumentf("calibrate(): there is no device cuda:%d; this machine has %d CUDA devices", device, n)
	}
	p, err := d.Properties(device)
	if err != nil {
		return cannot(err)
	}
	if path == "" && kept == "" {
		return "", model.Machine{}, core.InvalidArgumentf("calibrate(): there is no folder to write to: set NVFUSER_GO_CACHE_DIR, or name a file")
	}
	if path == "" {
		path = Path(kept, p)
	}
	m, err := Measure(d, device)
	if err != nil {
		return cannot(err)
	}
	return path, m, Write(path, m)
}
