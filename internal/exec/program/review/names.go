package review

import (
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

var (
	// inputNames hold the arguments of a program.
	inputNames = lazily.Words(`args argv input params event inputs`)

	// argumentCalls return arguments of the program.
	argumentCalls = lazily.Words(`input prompt argparse.ArgumentParser`)

	// cleanMembers are members of any value that can't harm.
	cleanMembers = lazily.Words(`length size byteLength status ok status_code lastIndex`)

	// cleanMethods are methods whose results contain nothing of the value.
	cleanMethods = lazily.Words(`
		includes indexOf lastIndexOf startsWith endsWith startswith endswith test has hasOwn toFixed
		toISOString toISODate getTime getFullYear getMonth getDate toPrecision count isdigit isalnum
		isidentifier digest hexdigest every some valueOf charCodeAt findIndex localeCompare isoformat
		strftime timestamp date total_seconds bit_length is_file is_dir exists is_relative_to isalpha
		isdecimal isnumeric`)

	// sameText are methods whose result is as dangerous as the value.
	sameText = lazily.Words(`
		trim trimStart trimEnd toLowerCase toUpperCase strip lstrip rstrip lower upper title capitalize
		toString slice substring substr padStart padEnd normalize flat reverse toReversed copy decode
		encode json text resolve absolute expanduser as_posix splitlines fetchall fetchone rows read
		readlines head repeat`)

	// pathBuilders join their arguments to a path.
	pathBuilders = lazily.Words(`path.join path.resolve path.posix.join os.path.join posixpath.join`)

	// pureNames and pureRoots are functions whose results contain nothing of their arguments.
	pureNames = lazily.Words(`
		Number Boolean BigInt parseInt parseFloat int float bool len round abs sum ord hash id range isNaN
		isFinite isinstance callable hasattr Date.now Symbol any all divmod pow complex os.getenv
		os.getcwd os.getpid os.path.exists os.path.isfile os.path.isdir os.path.getsize fs.existsSync
		secure_filename werkzeug.utils.secure_filename werkzeug.secure_filename Array.isArray
		ipaddress.ip_address sleep`)
	pureRoots = lazily.Words(`
		Math Date Number performance crypto math time datetime date timedelta random uuid hashlib secrets
		console logging logger statistics calendar zoneinfo tempfile platform getpass shutil.which decimal
		Decimal Intl Boolean Symbol`)

	// wrappers return their arguments in another form.
	wrappers = lazily.Words(`
		Array.from Array.of Array Set Map Object.freeze Object.fromEntries structuredClone list tuple set
		dict sorted reversed iter next frozenset Promise.resolve Promise.race Promise.any min max
		enumerate`)

	// passing and passingRoots return values that contain their arguments.
	passing = lazily.Words(`
		JSON.parse JSON.stringify decodeURIComponent decodeURI encodeURI atob btoa escape unescape repr
		format bytes bytearray zip vars getattr Promise Error TypeError URL URLSearchParams RegExp
		Buffer.from TextDecoder TextEncoder Object Blob setTimeout print type super iter io.StringIO
		StringIO os.fspath os.fsdecode`)
	passingRoots = lazily.Words(`
		json re csv base64 html textwrap string itertools functools collections copy operator asyncio
		Object Array Buffer Promise path util os posixpath urllib.parse typing dataclasses shlex yaml toml
		tomllib io URL concurrent ast sys TextDecoder Reflect Iterator pathlib`)

	// logNames are functions that only show texts.
	logNames = lazily.Words(`print log info warn warning error debug`)

	sqlKeys   = lazily.Words(`sql query statement stmt q sql_query text querytext raw_sql sqlquery`)
	shellKeys = lazily.Words(`command cmd commandline command_line shell_command shellcommand bash cmdline shellcmd`)
	pathKeys  = lazily.Words(`
		path file filename file_path filepath file_name dir directory folder dest destination src source
		from to target output output_path outputpath root local_path localpath cwd old_path new_path`)

	sqlMethods = lazily.Words(`
		query execute executemany executescript exec run prepare raw unsafe get all each fetch fetchrow
		fetchval fetchall fetch_one fetch_all select text read_sql read_sql_query queryrawunsafe
		$queryrawunsafe $executerawunsafe executeraw none one many any sql`)
	shellFunctions = lazily.Words(`
		child_process.exec child_process.execSync exec execSync os.system os.popen system popen
		subprocess.getoutput subprocess.getstatusoutput commands.getoutput asyncio.create_subprocess_shell
		create_subprocess_shell getoutput Bun.$`)
	shellLoose = lazily.Words(`
		subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.Popen
		child_process.spawn child_process.spawnSync child_process.execFile child_process.execFileSync
		spawn`)
	fileMethods = lazily.Words(`
		read_text write_text read_bytes write_bytes unlink rmdir mkdir touch open rename replace`)
	fileCalls = lazily.Words(`
		open io.open os.remove os.unlink os.rmdir os.makedirs os.mkdir os.rename os.replace shutil.rmtree
		shutil.copy shutil.copyfile shutil.move shutil.copy2 os.open codecs.open readFile readFileSync
		writeFile writeFileSync pandas.read_csv pd.read_csv`)
	evalCalls = lazily.Words(`
		eval exec compile Function vm.runInNewContext vm.runInThisContext vm.runInContext vm.Script
		AsyncFunction setTimeout setInterval vm.compileFunction GeneratorFunction`)
)

// splitWords returns the words of a dotted name in any style, in lower case.
func splitWords(path string) (out []string) {
	from := 0
	cut := func(to int) {
		if to > from {
			out = append(out, strings.ToLower(path[from:to]))
		}
		from = to
	}
	for i := range len(path) {
		switch c := path[i]; {
		case c == '.' || c == '_' || c == '-':
			cut(i)
			from = i + 1
		case c >= 'A' && c <= 'Z' && i > 0 && path[i-1] >= 'a' && path[i-1] <= 'z':
			cut(i)
		}
	}
	cut(len(path))
	return out
}

// hasWord reports whether the path of a call has a word of a set.
func (c *call) hasWord(set *lazily.Set) bool {
	if c.words == nil {
		c.words = splitWords(c.path)
	}
	return slices.ContainsFunc(c.words, set.Has)
}

func hasWord(path string, set *lazily.Set) bool {
	return slices.ContainsFunc(splitWords(path), set.Has)
}

var (
	fileWords = lazily.Words(`
		fs file files filesystem folder folders dir dirs directory directories workspace disk storage vfs
		drive path`)
	shellWords = lazily.Words(`
		shell bash terminal ssh sh zsh powershell exec execute command commands subprocess process console
		cmd cli`)
	databaseWords = lazily.Words(`
		db sql database postgres postgresql mysql sqlite mariadb pg duckdb bigquery snowflake warehouse
		clickhouse redshift pool conn connection cursor sqlite3 psycopg psycopg2 asyncpg knex prisma
		sequelize client`)
	listWords = lazily.Words(`list ls glob readdir listdir scandir walk find iterdir scan`)
	webWords  = lazily.Words(`
		http https fetch request requests web api httpx urllib aiohttp axios got curl url download client
		session ssl tls agent websocket connect pool ldap smtp redis mongo`)
)

// listsFiles reports whether a call returns the names of files in a directory.
func listsFiles(c *call) bool {
	return c.hasWord(listWords) && (c.hasWord(fileWords) || strings.HasPrefix(c.path, "os.") ||
		strings.HasPrefix(c.path, "glob")) && !strings.HasSuffix(c.path, "readFile")
}

// isEscape reports whether a function is named as one that makes values harmless.
func isEscape(name string) bool {
	for _, w := range splitWords(name) {
		switch w {
		case "quote", "escape", "sanitize", "sanitise", "slug", "slugify", "identifier", "ident", "literal",
			"safe", "clean", "basename", "shellescape":
			return true
		}
	}
	return false
}

// escapeOf returns what a function named as an escape makes its result safe for.
func escapeOf(path string) (s ruleSet) {
	for _, w := range splitWords(path) {
		switch w {
		case "sql", "db", "identifier", "ident", "literal", "pg", "mysql":
			return safeSQL
		case "shell", "sh", "shellescape", "shlex":
			return safeShell
		case "path", "filename", "file", "basename":
			return safePath
		case "html", "xml", "markdown", "url":
			return 0
		}
	}
	return safeAll
}
