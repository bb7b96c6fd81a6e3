package cuda

import (
	"fmt"
	"strings"
)

// Binding strengths of C++ operators.
const (
	levelAny = iota
	levelTernary
	levelOr
	levelAnd
	levelBitOr
	levelBitXor
	levelBitAnd
	levelEqual
	levelCompare
	levelShift
	levelAdd
	levelMul
	levelUnary
	levelAtom
)

var operatorLevels = map[string]int{
	"?": levelTernary, ":": levelTernary, "||": levelOr, "&&": levelAnd, "|": levelBitOr, "^": levelBitXor, "&": levelBitAnd,
	"==": levelEqual, "!=": levelEqual, "<": levelCompare, "<=": levelCompare, ">": levelCompare, ">=": levelCompare,
	"<<": levelShift, ">>": levelShift, "+": levelAdd, "-": levelAdd, "*": levelMul, "/": levelMul, "%": levelMul,
}

// A text is a piece of C++ and how strongly its outermost operator binds.
type text struct {
	code  string
	level int
	// simple says that writing it twice costs nothing: a name or a literal.
	simple bool
}

// within returns t, in parentheses unless it binds as strongly as level.
func (t text) within(level int) string {
	if t.level < level {
		return "(" + t.code + ")"
	}
	return t.code
}

func atom(format string, args ...any) text {
	return text{code: fmt.Sprintf(format, args...), level: levelAtom}
}

// binary returns the operands around an operator. Those on the right bind more
// strongly, as no operator is taken to associate.
func binary(operator string, a, b text) text {
	level := operatorLevels[operator]
	return text{code: a.within(level) + " " + operator + " " + b.within(level+1), level: level}
}

// A template is the CUDA text of an op, taken apart.
type template struct {
	pieces []piece
	level  int
	slots  [3]int // how often each operand is written
	calls  []string
	only   bool // an operand and nothing else
	lazy   bool // some operands are not always evaluated
	divide bool
}

// A piece is literal text, then an operand if slot is not negative. need is how
// strongly the operand must bind.
type piece struct {
	code       string
	slot, need int
}

// parseTemplate takes apart a text such as "$0 <= 0 ? 0 : $0": operands, calls,
// infix operators between spaces and prefix operators.
func parseTemplate(source string) *template {
	t := &template{level: levelAtom, calls: functionNames(source)}
	tokens := templateTokens(source)
	depth, code := 0, ""
	for i, token := range tokens {
		prefix := (token == "-" || token == "!" || token == "~") && (i == 0 || operatorLevels[tokens[i-1]] > 0 || tokens[i-1] == "(" || tokens[i-1] == ",")
		if depth == 0 {
			if level := operatorLevels[token]; prefix {
				t.level = min(t.level, levelUnary)
			} else if level > 0 {
				t.level = min(t.level, level)
			}
		}
		t.divide = t.divide || token == "/"
		t.lazy = t.lazy || token == "?" || token == "&&" || token == "||"
		switch {
		case token == "(":
			depth++
			code += token
		case token == ")":
			depth--
			code += token
		case token == ",":
			code += ", "
		case strings.HasPrefix(token, "$"):
			slot := int(token[1] - '0')
			t.slots[slot]++
			t.pieces = append(t.pieces, piece{code, slot, slotLevel(tokens, i)})
			code = ""
		case operatorLevels[token] > 0 && !prefix:
			code += " " + token + " "
		default:
			code += token
		}
	}
	t.only = len(tokens) == 1 && len(t.pieces) == 1
	t.pieces = append(t.pieces, piece{code: code, slot: -1})
	return t
}

// slotLevel returns how strongly the operand at tokens[i] must bind.
func slotLevel(tokens []string, i int) int {
	need := levelAny
	if i > 0 {
		switch before := tokens[i-1]; before {
		case "(", ",", "?": // nothing
		case ":":
			need = levelTernary
		case "!", "~":
			need = levelUnary
		case "-":
			need = levelMul
			if i == 1 || operatorLevels[tokens[i-2]] > 0 || tokens[i-2] == "(" {
				need = levelAtom // else two minus signs may meet
			}
		default:
			need = operatorLevels[before] + 1
		}
	}
	if i+1 < len(tokens) {
		switch after := tokens[i+1]; after {
		case ")", ",", ":":
		case "?":
			need = max(need, levelTernary+1)
		default:
			need = max(need, operatorLevels[after])
		}
	}
	return need
}

func templateTokens(source string) []string {
	var tokens []string
	for source != "" {
		n := 1
		switch c := source[0]; {
		case c == ' ':
			source = source[1:]
			continue
		case c == '$':
			n = 2
		case len(source) > 1 && operatorLevels[source[:2]] > 0:
			n = 2
		case isWord(c):
			for n < len(source) && (isWord(source[n]) || source[n] == '.') {
				n++
			}
		}
		tokens = append(tokens, source[:n])
		source = source[n:]
	}
	return tokens
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// apply returns the template with the operands in their places.
func (t *template) apply(operands []text) text {
	if t.only {
		return operands[t.pieces[0].slot]
	}
	var b strings.Builder
	for _, p := range t.pieces {
		b.WriteString(p.code)
		if p.slot >= 0 {
			b.WriteString(operands[p.slot].within(p.need))
		}
	}
	return text{code: b.String(), level: t.level}
}
