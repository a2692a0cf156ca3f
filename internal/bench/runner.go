package bench

import (
	"context"
	"errors"
)

func run(context.Context, Config, Progress) (*Result, error) {
	return nil, errors.New("bench: not built yet")
}
