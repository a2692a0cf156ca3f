package ctl

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// bashWords precedes cobra's script for bash, which uses this function from the package
// bash-completion. Without that package the tab key would only print that the function is missing.
// It sets cur, prev, words and cword of its caller, and rejoins what bash has split at = and :.
const bashWords = `# Where the package bash-completion is loaded its own function is used.
if ! declare -F _get_comp_words_by_ref >/dev/null; then
_get_comp_words_by_ref()
{
    local i word glued rest=${COMP_LINE} parted=
    words=() cword=0
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        word=${COMP_WORDS[i]} glued=
        if [[ $i -gt 0 && $rest != [[:space:]]* ]]; then
            [[ -n $parted || -n $word && $word != *[!=:]* ]] && glued=1
        fi
        rest=${rest#"${rest%%[![:space:]]*}"}
        rest=${rest#"$word"}
        parted=
        [[ -n $word && $word != *[!=:]* ]] && parted=1
        if [[ -n $glued ]]; then
            words[${#words[@]}-1]+=$word
        else
            words+=("$word")
        fi
        [[ $i -eq $COMP_CWORD ]] && cword=$((${#words[@]} - 1))
    done
    cur=${words[cword]} prev=
    [[ $cword -gt 0 ]] && prev=${words[cword-1]}
    return 0
}
fi

`

// completion adapts cobra's completion command.
func completion(a *app.App, root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		app.Offline(c)
		c.Args = cli.NoArgs
		c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		c.Short = "Print a completion script for bash, zsh, fish or powershell"
		for _, shell := range c.Commands() {
			if shell.Name() == "bash" {
				bash(a, shell)
			}
		}
	}
}

func bash(a *app.App, c *cobra.Command) {
	script := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if _, err := fmt.Fprint(a.Out, bashWords); err != nil {
			return fmt.Errorf("standard output: %w", err)
		}
		return script(cmd, args)
	}
	c.Long = "Print the completion script for bash. For this shell, and for all that are started from now on:\n\n" +
		"  source <(chronikctl completion bash)\n" +
		"  chronikctl completion bash > ~/.local/share/bash-completion/completions/chronikctl\n\n" +
		"The second needs the package bash-completion; without it write the first line into ~/.bashrc."
}
