package main

import (
	"flag"
	"fmt"
	"io"

	"nvfuser_go/passes"
)

func passesFlags(*options, *flag.FlagSet) {}

// runPasses prints which passes changed how many expressions, and what came out.
func runPasses(o *options, out io.Writer) error {
	f, applied, err := passes.Run(o.fusion, true)
	if err != nil {
		return err
	}
	for _, a := range applied {
		fmt.Fprintf(out, "%s: %d\n", a.Pass, a.Changes)
	}
	if len(applied) == 0 {
		fmt.Fprintln(out, "no pass changes it")
	}
	_, err = fmt.Fprintf(out, "\n%s", f)
	return err
}
