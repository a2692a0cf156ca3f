package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// chartDir is the Helm chart.
const chartDir = "deploy/helm/chronik"

// chart writes chronik-VERSION.tgz, the name that Helm gives a packaged chart. The chart and the
// broker that it runs have the version of the release.
func (r *release) chart() error {
	files, err := trackedFiles(chartDir, "")
	if err != nil {
		return err
	}
	for i := range files {
		files[i].name = "chronik" + strings.TrimPrefix(files[i].name, chartDir)
		if files[i].name == "chronik/Chart.yaml" {
			if files[i].data, err = r.chartSettings(files[i].data); err != nil {
				return err
			}
		}
	}
	content, err := tarOf(files, r.time)
	if err != nil {
		return err
	}
	return put(r.name("chronik-%s.tgz", r.version), compressed(content))
}

// chartSettings returns Chart.yaml with the version of the release.
func (r *release) chartSettings(text []byte) ([]byte, error) {
	for _, key := range []string{"version", "appVersion"} {
		line := regexp.MustCompile(`(?m)^` + key + `: .*$`)
		if len(line.FindAll(text, -1)) != 1 {
			return nil, fmt.Errorf("Chart.yaml has no %s, or several", key)
		}
		text = line.ReplaceAll(text, []byte(key+": "+r.version))
	}
	return text, nil
}

// sbom writes a bill of materials (CycloneDX) for each archive, from what is linked into its
// programs.
func (r *release) sbom() error {
	for _, p := range r.platforms {
		archive := fmt.Sprintf("chronik-%s-%s", r.version, p)
		args := []string{"run", "-trimpath", "-buildvcs=false", "./scripts/sbom", "-archive", archive, r.version}
		args = append(args, filepath.Join(".cache", "release"))
		for _, name := range programs {
			args = append(args, filepath.Join(p.bin(), name))
		}
		if _, err := outputWith(r.environment(host()), "go", args...); err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(".cache", "release", archive+".cdx.json"))
		if err != nil {
			return err
		}
		if err := put(r.name("%s.cdx.json", archive), text); err != nil {
			return err
		}
	}
	return nil
}

// notesName is the file of the release notes.
const notesName = "RELEASE-NOTES.md"

// relativeLink matches a link of a page to a file of the repository.
var relativeLink = regexp.MustCompile(`\]\(([A-Za-z][\w./-]*(?:#[\w-]*)?)\)`)

// notes writes the section of CHANGELOG.md, whose links lead to the files of the tag.
func (r *release) notes() error {
	log, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	_, text, err := newestSection(string(log))
	if err != nil {
		return err
	}
	at := "https://github.com/chronik-io/chronik/blob/v" + r.version + "/"
	text = relativeLink.ReplaceAllString(text, "]("+at+"$1)")
	head := fmt.Sprintf("# chronik %s\n\nInstall and verify: [docs/install.md](%sdocs/install.md). Commit %s.\n\n", r.version, at, r.commit)
	return put(r.name(notesName), []byte(head+text+"\n"))
}
