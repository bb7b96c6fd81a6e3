package main

/*
#include <unistd.h>
*/
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"nvfuser_go/executor"
)

// A progressLine is what a terminal shows while plans are made that last: one line,
// written over, of all of them, and cleared when one is done.
type progressLine struct {
	lock  sync.Mutex
	width int // of what is shown
	next  time.Time
}

var progress progressLine

// patience is how long a plan may take before a line is shown, and whether one ever is.
var patience = sync.OnceValues(func() (time.Duration, bool) {
	seconds := 2.0
	if text := environment("NVFUSER_GO_PROGRESS"); text != "" {
		given, err := strconv.ParseFloat(text, 64)
		if err != nil || !(given > 0 && given < 1e9) { // also "off"
			return 0, false
		}
		seconds = given
	}
	return time.Duration(seconds * float64(time.Second)), C.isatty(2) == 1
})

// waits shows the line for a caller who waits for what began then.
func (p *progressLine) waits(began time.Time) {
	after, shows := patience()
	now := time.Now()
	if !shows || now.Sub(began) < after {
		return
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	if now.Before(p.next) {
		return
	}
	text := "nvfuser_go: planning"
	if done, all := executor.Compiling(); all > 0 {
		text = fmt.Sprintf("nvfuser_go: compiled %d of %d kernels", done, all)
	}
	text += fmt.Sprintf(", %d s", int(now.Sub(began).Seconds()))
	fmt.Fprintf(os.Stderr, "\r%s%s", text, strings.Repeat(" ", max(p.width-len(text), 0)))
	p.width, p.next = len(text), now.Add(200*time.Millisecond)
}

// clear removes the line.
func (p *progressLine) clear() {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.width > 0 {
		fmt.Fprintf(os.Stderr, "\r%s\r", strings.Repeat(" ", p.width))
	}
	p.width, p.next = 0, time.Time{}
}
