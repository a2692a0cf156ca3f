package app

import (
	"errors"
	"fmt"

	"github.com/chronik-io/chronik/internal/text"
)

// Outcome is the result of a change to one thing.
type Outcome struct {
	Name   string `json:"name"`
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
}

// Outcomes collects results in order.
type Outcomes struct {
	list   []Outcome
	errors []error
}

// Done records a success; format is the result: "created".
func (o *Outcomes) Done(name, format string, args ...any) {
	o.list = append(o.list, Outcome{Name: name, Result: fmt.Sprintf(format, args...)})
}

// Failed records a failure.
func (o *Outcomes) Failed(name string, err error) {
	o.list = append(o.list, Outcome{Name: name, Result: "failed", Error: err.Error()})
	o.errors = append(o.errors, err)
}

// Refused is Failed with the broker's message and a remedy.
func (o *Outcomes) Refused(name, what string, err error, message string) {
	o.Failed(name, Refused(what, err, message))
}

// Empty reports whether nothing was recorded.
func (o *Outcomes) Empty() bool { return len(o.list) == 0 }

// Err returns the failures, or nil if everything was done.
func (o *Outcomes) Err() error { return errors.Join(o.errors...) }

// PrintOutcomes prints the successes and returns the failures.
func (a *App) PrintOutcomes(o *Outcomes) error {
	if !a.Format().ForPeople() {
		list := o.list
		if list == nil {
			list = []Outcome{}
		}
		return errors.Join(append([]error{a.Print(list)}, o.errors...)...)
	}
	for _, x := range o.list {
		if x.Error != "" {
			continue
		}
		if _, err := fmt.Fprintf(a.Out, "%s %s\n", text.Plain(x.Name), text.Plain(x.Result)); err != nil {
			return fmt.Errorf("standard output: %w", err)
		}
	}
	return errors.Join(o.errors...)
}
