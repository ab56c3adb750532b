// Package step ends the process after a chosen step, as kill -9 would. The tests use it to show that a driver may die
// anywhere.
package step

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

// Variable names the environment variable that says after how many steps the process ends; unset, it never does.
const Variable = "HOISTWAY_CSI_DIE_AFTER_STEPS"

var left atomic.Int64

func init() {
	count, err := strconv.ParseInt(os.Getenv(Variable), 10, 64)
	if err != nil {
		// No step ever makes it zero again.
		count = -1
	}
	left.Store(count)
}

// Done says that a change which outlives the process (a file, a mount, a device) has been made.
func Done(what string) {
	if left.Load() < 0 {
		return
	}
	if left.Add(-1) == 0 {
		fmt.Fprintf(os.Stderr, "ended after the step: %s\n", what)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
