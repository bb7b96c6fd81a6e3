package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"nvfuser_go/cudadrv/cubins"
	"nvfuser_go/executor/calibration"
)

func calibrateFlags(o *options, set *flag.FlagSet) {
	set.IntVar(&o.device, "device", 0, "the number of the device")
	set.StringVar(&o.to, "to", "", "the file to write; if not given, where plans look for it")
}

func calibrate(o *options, out io.Writer) error {
	d, err := driver()
	if err != nil {
		return err
	}
	path := o.to
	if path == "" {
		path = os.Getenv(calibration.Variable)
	}
	path, m, err := calibration.Run(d, o.device, path, cubins.Folder(os.Getenv))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\nwritten to %s\n", m.Text(), path)
	return err
}
