package app

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/text"
)

// shownLosses is how many losses a question lists before it counts the rest.
const shownLosses = 20

// Irreversible is the way back for Confirm if there is none.
const Irreversible = "This cannot be undone."

// Asks reports whether Confirm may ask or refuse, which is so without --yes.
func (a *App) Asks() bool { return !a.yes }

// Confirm asks before an action. what names the action, "delete 2 topics"; losses lists what it
// deletes or changes, or why it asks; back is a sentence about how to undo it. If standard input is
// not a terminal, Confirm lists the losses and returns an error unless --yes is set.
func (a *App) Confirm(what, back string, losses []string) error {
	if a.yes {
		return nil
	}
	if !cli.IsTerminal(a.In) {
		a.NoteLosses(losses)
		return WithCode(ExitUnconfirmed,
			fmt.Errorf(
				"%s: not confirmed, nothing was done: standard input is not a terminal; add --yes to do it, --dry-run to see what it would do",
				what))
	}
	return a.ask(what, back, losses)
}

// NoteLosses lists what an action deletes or changes.
func (a *App) NoteLosses(losses []string) {
	for i, loss := range losses {
		if i == shownLosses {
			a.Note("  … and %d more", len(losses)-i)
			break
		}
		a.Note("  %s", loss)
	}
}

func (a *App) ask(what, back string, losses []string) error {
	a.NoteLosses(losses)
	fmt.Fprintf(a.Err, "%s? %s yes or no: ", text.Plain(what), back)
	answer, err := bufio.NewReader(a.In).ReadString('\n')
	if s := strings.ToLower(strings.TrimSpace(answer)); s == "yes" || s == "y" {
		return nil
	}
	if err != nil {
		a.Note("")
	}
	return WithCode(ExitUnconfirmed, errors.New(what+": not confirmed, nothing was done"))
}
