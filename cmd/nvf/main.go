// Command nvf works on the text form of a fusion: it prints it, rewrites it, lowers
// it to a kernel, and runs it, on the CPU or by its kernel in the simulator.
//
//	nvf COMMAND [flags] [FILE]
//
// FILE has the text, as Fusion.text() of the Python package returns it; without
// it, or with "-", standard input. "nvf help" lists the commands, "nvf COMMAND
// -help" the flags. The exit status is 0, or 1 if the fusion cannot be handled or
// its results are wrong, or 2 if the command line cannot be understood.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"nvfuser_go/core"
	"nvfuser_go/executor"
)

// A command is the first argument.
type command struct {
	name  string
	does  string
	flags func(*options, *flag.FlagSet) // that it takes
	run   func(*options, io.Writer) error
	alone bool // it takes no fusion
}

// options are the flags of all commands, and the fusion.
type options struct {
	form, stage, sizes, schedule, arch string
	seed                               uint64
	device                             int
	to                                 string

	fusion *core.Fusion
}

var commands = []command{
	{"print", "prints the fusion", printFlags, printFusion, false},
	{"passes", "rewrites the fusion as it is before it is cut, and tells which passes changed how much", passesFlags, runPasses, false},
	{"lower", "shows a stage of the fusion on its way to a kernel", lowerFlags, lowerFusion, false},
	{"simulate", "runs the kernel in the simulator, compares with the evaluator and counts the work", simulateFlags, simulateFusion, false},
	{"run", "runs the fusion on the CPU and compares with the evaluator", runFlags, runFusion, false},
	{"calibrate", "measures a CUDA device, and writes what plans go by", calibrateFlags, calibrate, true},
}

func main() { os.Exit(nvf(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// nvf is main, and returns the exit status.
func nvf(arguments []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := execute(arguments, stdin, stdout)
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "nvf: %s\n", oneLine(err))
		return 2
	}
	fmt.Fprintf(stderr, "nvf: %s\n", oneLine(err))
	return 1
}

// A usageError is a command line that cannot be understood.
type usageError string

func (e usageError) Error() string { return string(e) }

func usagef(format string, arguments ...any) error {
	return usageError(core.InvalidArgumentf(format, arguments...).Error())
}

// oneLine returns the text of an error. Of a mistake of ours only the first line
// is for reading.
func oneLine(err error) string {
	text := strings.TrimSpace(err.Error())
	var bug *executor.Bug
	if errors.As(err, &bug) {
		first, _, _ := strings.Cut(text, "\n")
		return first
	}
	return strings.ReplaceAll(text, "\n  ", "; ")
}

func execute(arguments []string, stdin io.Reader, stdout io.Writer) error {
	if len(arguments) == 0 {
		return usagef("no command; the commands are %s", names())
	}
	name, arguments := arguments[0], arguments[1:]
	if name == "help" || name == "-h" || name == "-help" || name == "--help" {
		fmt.Fprintf(stdout, "nvf COMMAND [flags] [FILE]\n\n")
		for _, c := range commands {
			fmt.Fprintf(stdout, "  %-10s%s\n", c.name, c.does)
		}
		return nil
	}
	for _, c := range commands {
		if c.name == name {
			return c.execute(arguments, stdin, stdout)
		}
	}
	return usagef("there is no command %q; the commands are %s", name, names())
}

func names() string {
	var list []string
	for _, c := range commands {
		list = append(list, c.name)
	}
	return strings.Join(list, ", ")
}

func (c *command) execute(arguments []string, stdin io.Reader, stdout io.Writer) error {
	var o options
	set := flag.NewFlagSet(c.name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	c.flags(&o, set)
	switch err := set.Parse(arguments); {
	case errors.Is(err, flag.ErrHelp):
		file := " [FILE]"
		if c.alone {
			file = ""
		}
		fmt.Fprintf(stdout, "nvf %s [flags]%s %s\n\n", c.name, file, c.does)
		set.SetOutput(stdout)
		set.PrintDefaults()
		return nil
	case err != nil:
		return usagef("%s: %v", c.name, err)
	case c.alone && set.NArg() > 0:
		return usagef("%s takes no file, got %s", c.name, strings.Join(set.Args(), " "))
	case c.alone:
		return c.run(&o, stdout)
	case set.NArg() > 1:
		return usagef("%s takes one file, got %s; flags come before it", c.name, strings.Join(set.Args(), " "))
	}
	var err error
	if o.fusion, err = readFusion(set.Arg(0), stdin); err != nil {
		return err
	}
	return c.run(&o, stdout)
}

func readFusion(file string, stdin io.Reader) (*core.Fusion, error) {
	text, err := []byte(nil), error(nil)
	if file == "" || file == "-" {
		text, err = io.ReadAll(stdin)
	} else {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, err
	}
	f, err := core.Parse(string(text))
	if err != nil {
		return nil, err
	}
	f.Freeze()
	return f, f.Verify()
}
