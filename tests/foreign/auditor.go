// An auditor who has nothing of ours: the log of Go's checksum database (golang.org/x/mod/sumdb) reads what we publish.
//
// Signatures, tiles and proofs are judged by note and tlog; here stands only where c2sp.org/tlog-tiles, tlog-proof and
// tlog-cosignature put things. It says what it found, a line each, and ends with 1 at the first thing that does not hold.
package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const height = 8

func must(err error, what string) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func hold(ok bool, what string) {
	if !ok {
		must(fmt.Errorf("does not hold"), what)
	}
}

// place is a folder or the address of a daemon; it keeps the tiles that were found to be right.
type place struct {
	where, token string
	right        map[tlog.Tile][]byte
}

func (p place) get(path string) ([]byte, error) {
	if !strings.HasPrefix(p.where, "http:") {
		return os.ReadFile(filepath.Join(p.where, filepath.FromSlash(path)))
	}
	ask, err := http.NewRequest("GET", p.where+"/"+path, nil)
	if err != nil {
		return nil, err
	}
	ask.Header.Set("Authorization", "Bearer "+p.token)
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", path, answer.Status)
	}
	return io.ReadAll(answer.Body)
}

// path is tlog's own path of a tile without its height, which tlog-tiles leaves out; level -1 is that of the entries.
func path(tile tlog.Tile) string {
	name := strings.TrimPrefix(tile.Path(), fmt.Sprintf("tile/%d/", height))
	return "tile/" + strings.Replace(name, "data/", "entries/", 1)
}

func (p place) Height() int { return height }

func (p place) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	data := make([][]byte, len(tiles))
	for i, tile := range tiles {
		if data[i] = p.right[tile]; data[i] == nil {
			var err error
			if data[i], err = p.get(path(tile)); err != nil {
				return nil, err
			}
		}
	}
	return data, nil
}

func (p place) SaveTiles(tiles []tlog.Tile, data [][]byte) {
	for i, tile := range tiles {
		p.right[tile] = data[i]
	}
}

// cosigner is the key of a witness (cosignature/v1), which note does not know: it signs the text together with a time.
type cosigner struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

func (c cosigner) Name() string    { return c.name }
func (c cosigner) KeyHash() uint32 { return c.hash }
func (c cosigner) Verify(text, signature []byte) bool {
	if len(signature) != 8+ed25519.SignatureSize {
		return false
	}
	said := fmt.Sprintf("cosignature/v1\ntime %d\n%s", binary.BigEndian.Uint64(signature), text)
	return ed25519.Verify(c.key, []byte(said), signature[8:])
}

func verifierOf(key string) note.Verifier {
	parts := strings.SplitN(key, "+", 3)
	if len(parts) == 3 {
		raw, err := base64.StdEncoding.DecodeString(parts[2])
		if err == nil && len(raw) == 1+ed25519.PublicKeySize && raw[0] == 4 {
			hash, err := strconv.ParseUint(parts[1], 16, 32)
			must(err, key)
			return cosigner{parts[0], uint32(hash), raw[1:]}
		}
	}
	verifier, err := note.NewVerifier(key)
	must(err, key)
	return verifier
}

// open is the tree that a checkpoint names, when every one of the keys has signed it.
func open(checkpoint []byte, keys []note.Verifier, what string) tlog.Tree {
	opened, err := note.Open(checkpoint, note.VerifierList(keys...))
	must(err, what)
	hold(len(opened.Sigs) == len(keys), what+": a signature by every key")
	lines := strings.SplitN(opened.Text, "\n", 4)
	hold(len(lines) == 4 && lines[0] == keys[0].Name(), what+": the origin")
	size, err := strconv.ParseInt(lines[1], 10, 64)
	must(err, what)
	root, err := tlog.ParseHash(lines[2])
	must(err, what)
	return tlog.Tree{N: size, Hash: root}
}

// entries are the lines of all bundles, each held against its leaf in the tiles.
func entries(p place, tree tlog.Tree, hashes tlog.HashReader) [][]byte {
	var lines [][]byte
	for n := int64(0); n<<height < tree.N; n++ {
		width := int64(1 << height)
		if left := tree.N - n<<height; left < width {
			width = left
		}
		name := path(tlog.Tile{H: height, L: -1, N: n, W: int(width)})
		data, err := p.get(name)
		must(err, name)
		for ; width > 0; width-- {
			hold(len(data) >= 2 && len(data) >= 2+int(binary.BigEndian.Uint16(data)), name+": the length of its entries")
			end := 2 + int(binary.BigEndian.Uint16(data))
			leaf, err := hashes.ReadHashes([]int64{tlog.StoredHashIndex(0, int64(len(lines)))})
			must(err, name)
			hold(leaf[0] == tlog.RecordHash(data[2:end]), fmt.Sprintf("%s: entry %d", name, len(lines)))
			lines, data = append(lines, data[2:end]), data[end:]
		}
		hold(len(data) == 0, name+": its end")
	}
	return lines
}

func extends(tree, old tlog.Tree, hashes tlog.HashReader, what string) {
	hold(old.N <= tree.N, what+": its size")
	proof, err := tlog.ProveTree(tree.N, old.N, hashes)
	must(err, what)
	must(tlog.CheckTree(proof, tree.N, tree.Hash, old.N, old.Hash), what)
}

// receipt is the tree that a tlog-proof's checkpoint names, when its entry is in that tree.
func receipt(file string, keys []note.Verifier) tlog.Tree {
	data, err := os.ReadFile(file)
	must(err, file)
	halves := bytes.SplitN(data, []byte("\n\n"), 2)
	hold(len(halves) == 2, file+": its form")
	lines := strings.Split(string(halves[0]), "\n")
	hold(len(lines) >= 3 && lines[0] == "c2sp.org/tlog-proof@v1", file+": its form")
	extra, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(lines[1], "extra "))
	must(err, file)
	var said struct{ Line string }
	must(json.Unmarshal(extra, &said), file)
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[2], "index "), 10, 64)
	must(err, file)
	var proof tlog.RecordProof
	for _, line := range lines[3:] {
		hash, err := tlog.ParseHash(line)
		must(err, file)
		proof = append(proof, hash)
	}
	tree := open(halves[1], keys, file)
	must(tlog.CheckRecord(proof, tree.N, tree.Hash, index, tlog.RecordHash([]byte(said.Line))), file)
	fmt.Printf("receipt of %d at %d\n", index, tree.N)
	return tree
}

// exported holds the files of an export that are ours alone against the public ones.
func exported(p place, keys []note.Verifier, tree tlog.Tree, hashes tlog.HashReader, lines [][]byte) {
	file, err := p.get("entries.jsonl")
	must(err, "entries.jsonl")
	all := bytes.Split(file, []byte("\n"))
	hold(len(all) > len(lines), "entries.jsonl: its length")
	hold(bytes.Equal(bytes.Join(all[:len(lines)], []byte("\n")), bytes.Join(lines, []byte("\n"))), "entries.jsonl: its lines")
	file, err = p.get("checkpoints.jsonl")
	must(err, "checkpoints.jsonl")
	kept := bytes.Split(bytes.TrimSuffix(file, []byte("\n")), []byte("\n"))
	for n, each := range kept {
		var said struct{ Note string }
		what := fmt.Sprintf("checkpoints.jsonl: checkpoint %d", n+1)
		must(json.Unmarshal(each, &said), what)
		if old := open([]byte(said.Note), keys, what); old.N <= tree.N {
			extends(tree, old, hashes, what)
		}
	}
	fmt.Printf("checkpoints %d\n", len(kept))
}

func main() {
	token := flag.String("token", "", "of the daemon")
	against := flag.String("against", "", "a checkpoint that was kept elsewhere")
	proof := flag.String("receipt", "", "a tlog-proof of this log")
	cosigned := flag.String("cosigned", "", "the key of a witness that has signed the receipt's checkpoint")
	flag.Parse()
	p := place{strings.TrimSuffix(flag.Arg(0), "/"), *token, map[tlog.Tile][]byte{}}
	keys := []note.Verifier{verifierOf(flag.Arg(1))}

	signed, err := p.get("checkpoint")
	must(err, "checkpoint")
	tree := open(signed, keys, "checkpoint")
	fmt.Printf("checkpoint %d %s\n", tree.N, tree.Hash)
	hashes := tlog.TileHashReader(tree, p)
	lines := entries(p, tree, hashes)
	for n, line := range lines {
		path, err := tlog.ProveRecord(tree.N, int64(n), hashes)
		must(err, fmt.Sprintf("the proof of entry %d", n))
		must(tlog.CheckRecord(path, tree.N, tree.Hash, int64(n), tlog.RecordHash(line)), fmt.Sprintf("entry %d", n))
	}
	fmt.Printf("entries %d\n", len(lines))
	if !strings.HasPrefix(p.where, "http:") {
		exported(p, keys, tree, hashes, lines)
	}
	if *against != "" {
		data, err := os.ReadFile(*against)
		must(err, *against)
		old := open(data, keys, *against)
		extends(tree, old, hashes, *against)
		fmt.Printf("extends %d\n", old.N)
	}
	if *proof != "" {
		if *cosigned != "" {
			keys = append(keys, verifierOf(*cosigned))
		}
		extends(tree, receipt(*proof, keys), hashes, *proof)
	}
}
