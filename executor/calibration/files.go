package calibration

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"nvfuser_go/core"
	"nvfuser_go/cudadrv"
	"nvfuser_go/schedulers/model"
)

// Variable of the environment names the file, instead of one below the folder of what is kept.
const Variable = "NVFUSER_GO_CALIBRATION"

// folder is where files are below that.
const folder = "calibration"

// Path returns the file of devices like p below the folder of what is kept.
func Path(kept string, p cudadrv.Properties) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, p.Name)
	return filepath.Join(kept, folder, name+".json")
}

// Write writes m to a file, and makes its folder.
func Write(path string, m model.Machine) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fileError(path, err)
	}
	f, err := os.CreateTemp(folder, ".calibration-*")
	if err != nil {
		return fileError(path, err)
	}
	_, err = f.WriteString(m.Text())
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fileError(path, err)
	}
	return nil
}

func fileError(path string, err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		err = e.Err
	}
	return core.InvalidArgumentf("the calibration %s: %v", path, err)
}

// Models returns what finds the model of a device: by the file given, if that is not empty;
// else by the one below the folder of what is kept, if that is not empty and it is there; else
// from what the device says of itself. The error is an InvalidArgument: a file that cannot be
// read, is of another device, or has numbers that no device has.
func Models(given, kept string) func(cudadrv.Properties) (model.Machine, error) {
	return func(p cudadrv.Properties) (model.Machine, error) {
		path := given
		if path == "" {
			if kept == "" {
				return BuiltIn(p), nil
			}
			path = Path(kept, p)
		}
		text, err := os.ReadFile(path)
		switch {
		case given == "" && isNoFolder(err):
			return BuiltIn(p), nil
		case err != nil:
			return model.Machine{}, fileError(path, err)
		}
		m, err := model.Parse(text)
		if err == nil && m.Device != p.Name {
			err = fmt.Errorf("it is of %s, and the device is %s", m.Device, p.Name)
		}
		if err != nil {
			return model.Machine{}, fileError(path, fmt.Errorf("%w; calibrate again, or remove it", err))
		}
		return m, nil
	}
}

// isNoFolder reports whether there is no file, or no folder for it that one may look into,
// as where what is kept has a place that is a file: nothing is kept then.
func isNoFolder(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, fs.ErrPermission)
}

// Source tells where the model m of a device is from.
func Source(p cudadrv.Properties, m model.Machine) string {
	if m != BuiltIn(p) {
		return "calibrated"
	}
	if _, ok := model.BuiltIn(p.Name); ok {
		return "built in"
	}
	return "derived from those of an H100"
}

// BuiltIn returns what is known of a device without a file.
func BuiltIn(p cudadrv.Properties) model.Machine {
	if m, ok := model.BuiltIn(p.Name); ok {
		return m
	}
	const edges = 2                                                               // of a clock at which bits move
	peak := float64(p.MemoryClock) * 1e3 * edges * float64(p.MemoryBus) / 8 / 1e6 // bytes in a us
	return model.Derived(p.Name, p.Processors, peak, float64(p.L2))
}
