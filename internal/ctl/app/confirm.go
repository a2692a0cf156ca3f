package app

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/chronik-io/chronik/internal/cli"
)

// shownLosses is how many things a question lists before it counts the rest.
const shownLosses = 20

// Final is the way back of what has none.
const Final = "This cannot be undone."

// Confirm asks whether what is listed may be destroyed. what says what would be
// done: "delete 2 topics"; back, in a sentence, how one could go back. Without a
// terminal to ask on, --yes must be there.
func (a *App) Confirm(what, back string, losses []string) error {
	if a.yes {
		return nil
	}
	if !cli.IsTerminal(a.In) {
		return WithCode(ExitUnconfirmed, fmt.Errorf("%s: not confirmed, nothing was done: standard input is no terminal to ask on; add --yes to do it, --dry-run to see what it would do", what))
	}
	return a.ask(what, back, losses)
}

func (a *App) ask(what, back string, losses []string) error {
	for i, loss := range losses {
		if i == shownLosses {
			a.Note("  … and %d more", len(losses)-i)
			break
		}
		a.Note("  %s", loss)
	}
	fmt.Fprintf(a.Err, "%s? %s yes or no: ", what, back)
	answer, err := bufio.NewReader(a.In).ReadString('\n')
	if s := strings.ToLower(strings.TrimSpace(answer)); s == "yes" || s == "y" {
		return nil
	}
	if err != nil {
		a.Note("")
	}
	return WithCode(ExitUnconfirmed, errors.New(what+": not confirmed, nothing was done"))
}
