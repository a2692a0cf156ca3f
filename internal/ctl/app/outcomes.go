package app

import (
	"errors"
	"fmt"
)

// Outcome is what became of one thing that a command was to change.
type Outcome struct {
	Name   string `json:"name"`
	Result string `json:"result"`
	Error  string `json:"error,omitempty"`
}

// Outcomes gathers them, in order.
type Outcomes struct {
	list   []Outcome
	errors []error
}

// Done notes that name is now as result says: "created".
func (o *Outcomes) Done(name, format string, args ...any) {
	o.list = append(o.list, Outcome{Name: name, Result: fmt.Sprintf(format, args...)})
}

// Failed notes that name could not be changed.
func (o *Outcomes) Failed(name string, err error) {
	o.list = append(o.list, Outcome{Name: name, Result: "failed", Error: err.Error()})
	o.errors = append(o.errors, err)
}

// Refused is Failed with the broker's words and a remedy.
func (o *Outcomes) Refused(name, what string, err error, message string) {
	o.Failed(name, Refused(what, err, message))
}

// Err is what was not done; nil where all was.
func (o *Outcomes) Err() error { return errors.Join(o.errors...) }

// Report shows what was done and returns what was not.
func (a *App) Report(o *Outcomes) error {
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
		if _, err := fmt.Fprintf(a.Out, "%s %s\n", x.Name, x.Result); err != nil {
			return fmt.Errorf("standard output: %w", err)
		}
	}
	return errors.Join(o.errors...)
}
