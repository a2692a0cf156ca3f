package exit

import (
	"errors"
	"fmt"
	"testing"
)

func TestAnUnknownErrorIsAFailure(t *testing.T) {
	if CodeOf(nil) != OK || CodeOf(errors.New("x")) != Failed ||
		CodeOf(fmt.Errorf("a: %w", With(Data, errors.New("b")))) != Data {
		t.Error("the exit codes are wrong")
	}
}
