package daemon

import (
	"errors"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"go.uber.org/zap"
)

// memoryShare is the part of the container's memory that the Go heap may take;
// the rest is for stacks, the kernel's buffers and the page cache.
const memoryShare = 0.8

// limitMemory tells the Go runtime the container's memory limit, unless
// GOMEMLIMIT does. Without a container there is no limit.
func limitMemory(log *zap.Logger) {
	limit, err := memlimit.Set(memlimit.WithRatio(memoryShare), memlimit.WithProvider(memlimit.FromCgroup))
	switch {
	case errors.Is(err, memlimit.ErrNoLimit), errors.Is(err, memlimit.ErrNoCgroup), errors.Is(err, memlimit.ErrCgroupsNotSupported):
	case err != nil:
		log.Warn("the container's memory limit cannot be read; set GOMEMLIMIT where there is one", zap.Error(err))
	case limit > 0:
		log.Debug("memory limit", zap.Int64("bytes", limit))
	}
}
