package daemon

import (
	"os"
	"strconv"
)

// holder returns what lock files record about this process.
func holder() string { return "pid " + strconv.Itoa(os.Getpid()) }
