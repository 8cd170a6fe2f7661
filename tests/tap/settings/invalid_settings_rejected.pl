# Tests that an invalid setting is rejected with its location, the reason and the valid values, and tests the precedence
# of arguments, variables and the file.
use strict;
use warnings;

use Clairon::Test qw(scratch top);
use Clairon::Test::SecureSocket;
use Cwd ();
use IPC::Run ();
use Test::More;

my $folder = scratch();
my $secret = 'SECRET-of-tests-0123456789-0123456789';
my $file   = "$folder/relay.conf";
write_text("$folder/secret", "$secret\n");
chmod 0600, "$folder/secret" or die "could not chmod: $!\n";
write_text("$folder/short",  "short\n");
mkdir "$folder/folder" or die "could not make a folder: $!\n";

sub write_text
{
    my ($path, $text) = @_;
    open my $out, '>', $path or die "could not write $path: $!\n";
    print {$out} $text;
    close $out or die "could not write $path: $!\n";
    return;
}

# Runs `clairon @$arguments` with these variables; returns the exit status, stdout and stderr.
sub clairon
{
    my ($arguments, %variables) = @_;
    local @ENV{ keys %variables } = values %variables;
    my ($out, $err) = ('', '');
    IPC::Run::run([ Clairon::Test::program(), @$arguments ], \undef, \$out, \$err, IPC::Run::timeout(20));
    return ($? & 127 ? -1 : $? >> 8, $out, $err);
}

# Checks that a file with this content is rejected with exactly this message.
sub check_rejected
{
    my ($name, $text, $wanted, @more) = @_;
    my ($arguments, %variables) = @more ? @more : ([]);
    write_text($file, $text);
    my ($code, $out, $err) = clairon([ 'relay', '-c', $file, '--check', @$arguments ], %variables);
    is($code, 2, "$name exits with 2");
    like($err, ref $wanted ? $wanted : qr/\Q$wanted\E/, "$name is reported with location and valid values");
    is($err =~ tr/\n//, 1, "$name is reported in one line");
    is($out, '', "$name prints nothing on standard output");
    unlike($err, qr/SECRET|hunter2/, "$name prints no secret");
    return;
}

# Returns a file that starts with six valid lines, followed by these lines.
sub valid_settings
{
    return join "\n", '[feed]', 'conninfo = host=/nowhere dbname=x password=hunter2', '[store]',
      'url = redis://me:hunter2@127.0.0.1:1', '[auth]', "hs256_secret_file = $folder/secret", @_, '';
}

# --check accepts valid settings.
write_text($file, valid_settings());
chmod 0600, $file or die "could not chmod: $!\n";
is_deeply([ clairon([ 'relay', '-c', $file, '--check' ]) ], [ 0, "settings are valid\n", '' ],
    '--check accepts valid settings');
write_text($file, "\xef\xbb\xbf# a comment\r\n; another\r\n\r\n" . valid_settings('[relay]', '  log_level=debug  ', '[gate]',
        'ping = 10 s', 'max_frame_bytes = 1MB', 'origins = https://a.example, https://b.example'));
is((clairon([ 'relay', '--check', '--config', $file ]))[0], 0, '--check accepts any valid layout');
is((clairon([ 'relay', '--check', "--auth.hs256_secret=$secret", '--feed.conninfo=dbname=x' ]))[0], 0,
    '--check accepts arguments without a file');
is((clairon([ 'relay', '--check' ], CLAIRON_AUTH_HS256_SECRET => $secret, CLAIRON_FEED_CONNINFO => 'dbname=x'))[0], 0,
    '--check accepts variables without a file');

# Invalid lines of the file are rejected.
check_rejected('an unknown key', valid_settings('[gate]', 'listn = 1'),
    qr{^clairon relay: \Q$file\E:8: \[gate\] listn is not a setting; did you mean \[gate\] listen\?.*max_connections});
check_rejected('a misplaced key', valid_settings('[gate]', 'roles = feed'), qr{:8: .*did you mean \[relay\] roles\?});
check_rejected('an unknown section', valid_settings('[gates]'), qr{\Q$file\E:7: \[gates\] is not a section; did you mean \[gate\]\? sections are .*gate, issuer, receipts, relay, rows, sink, store, webhook});
check_rejected('a repeated key', valid_settings('[gate]', 'ping = 1s', 'ping = 2s'), qr{\Q$file\E:9: .*ping is already set on line 8});
check_rejected('a key without its section', "ping = 1s\npong = 1s\n" . valid_settings(), qr{\Q$file\E:1: a setting must follow a \[section\]});
check_rejected('a section in capitals', valid_settings('[Auth]', 'leeway = 1s'), qr{\Q$file\E:7: \[Auth\] is not a section; did you mean \[auth\]\?});
check_rejected('an empty [auth]', "[feed]\nconninfo = dbname=x\n[auth]\n", qr{missing setting \[auth\] hs256_secret_file .*head -c 32 /dev/urandom});
check_rejected('a line without a setting', valid_settings('[gate]', 'ping'), qr{\Q$file\E:8: a line must be \[section\], name = value, or a comment});
check_rejected('a broken section', valid_settings('[gate'), qr{\Q$file\E:7: a section must be \[name\] on a separate line});
check_rejected('a zero byte', valid_settings("[gate]\0"), qr{\Q$file\E:7: a line must not contain a NUL byte});
check_rejected('a secret as the name of a setting', valid_settings('[auth]', "SECRET+$secret=="), qr{\Q$file\E:8: a name may contain only letters});

# Invalid values in the file are rejected.
my $at = "$file:8: [gate]";
check_rejected("$_->[0]", valid_settings('[gate]', $_->[0]), "$at $_->[1]") for
  [ 'ping = soon',      'ping must be a duration from 100ms to 1h in ms, s, m, h or d, not "soon"' ],
  [ 'ping = 5',         'ping must be a duration' ],
  [ 'ping = -1s',       'ping must be a duration' ],
  [ 'ping = 2h',        'ping must be a duration from 100ms to 1h' ],
  [ 'ping =',           'ping must be a duration' ],
  [ 'ping = "10s"',     'ping must be a duration' ],
  [ 'drain = 99999999999999999999s', 'drain must be a duration' ],
  [ 'max_connections = many', 'max_connections must be a number from 1 to 1000000, not "many"' ],
  [ 'max_connections = 0',    'max_connections must be a number from 1' ],
  [ 'max_connections = 1e3',  'max_connections must be a number from 1' ],
  [ 'max_frame_bytes = 64KB', 'max_frame_bytes must be a size from 256B to 1MB in B, kB or MB, not "64KB"' ],
  [ 'listen = 8080',          'listen must be host:port, [v6]:port or unix:/path, not "8080"' ],
  [ 'listen = host:99999',    'listen must be host:port' ],
  [ 'listen = unix:relative', 'listen must be host:port' ],
  [ 'listen = unix:/' . 'x' x 200, 'listen must be host:port' ],
  [ 'workers = 65',           'workers must be a number from 1 to 64, not "65"' ],
  [ 'origins = https://app.example/', 'origins must be scheme://host[:port] without a path, or *, comma-separated, not "https://app.example/"' ],
  [ 'console = maybe',        'console must be' ];
check_rejected("$_->[0] $_->[1]", valid_settings("[$_->[0]]", $_->[1]), "$file:8: [$_->[0]] $_->[2]") for
  [ 'relay', 'roles = reader',      'roles must be a list of feed, gate and sink, such as feed,gate,sink, not "reader"' ],
  [ 'relay', 'log_level = loud',    'log_level must be error, warn, info or debug, not "loud"' ],
  [ 'relay', 'log_format = xml',    'log_format must be logfmt or json' ],
  [ 'feed',  'create_slot = maybe', 'create_slot must be true, false, on, off, yes, no, 1 or 0' ],
  [ 'feed',  'slot = Big-Slot',     'slot must have 1 to 63 of the characters a-z, 0-9 and _' ],
  [ 'store', 'prefix = a{b}',       'prefix must have 1 to 64 letters' ],
  [ 'store', 'shards = 17',         'shards must be' ],
  [ 'webhook', 'url = example.com/hook',  'url must be https://host[:port]/path, in ASCII and without #' ],
  [ 'webhook', 'url = ftp://example.com', 'url must be https://host[:port]/path' ],
  [ 'webhook', 'url = https:///hook',     'url must be https://host[:port]/path' ],
  [ 'webhook', 'url = https://example.com:0/hook', 'url must be https://host[:port]/path' ],
  [ 'webhook', 'url = https://example.com/a b', 'url must be https://host[:port]/path' ],
  [ 'webhook', 'url = https://example.com/#a', 'url must be https://host[:port]/path' ],
  [ 'webhook', 'outcomes = acked, lost',  'outcomes must be a list of acked, expired, exhausted, unreached, dropped, forgotten, escalated and escalated2, not "acked, lost"' ],
  [ 'webhook', 'outcomes = ,',            'outcomes must be a list of acked' ],
  [ 'webhook', 'timeout = 11m',           'timeout must be a duration from 100ms to 10m' ],
  [ 'webhook', 'concurrency = 0',         'concurrency must be a number from 1 to 100, not "0"' ],
  [ 'webhook', 'batch = 1001',            'batch must be a number from 1 to 1000, not "1001"' ],
  [ 'webhook', 'allow_private = maybe',   'allow_private must be true' ],
  [ 'sink',  'proxy = example.com:3128',  'proxy must be http://[user:password@]host:port' ],
  [ 'sink',  'proxy = http://example.com', 'proxy must be http://[user:password@]host:port' ],
  [ 'sink',  'proxy = https://example.com:3128', 'proxy must be http://[user:password@]host:port' ],
  [ 'sink',  'proxy = http://example.com:3128/path', 'proxy must be http://[user:password@]host:port' ];
write_text("$folder/webhook", "whsec_c2hvcnQ=\n");
check_rejected('a wrong secret of the webhook', valid_settings('[webhook]', 'url = https://example.com/hook', "secret_file = $folder/webhook"),
    qr{\[webhook\] secret_file: \Q$folder\E/webhook: .*line 1});
my $start = "[auth]\nhs256_secret_file = $folder/secret\n[feed]\nconninfo = dbname=x\n[store]\n";
check_rejected('a wrong url', "${start}url = http://me:hunter2\@host:1\n", "$file:6: [store] url must be redis://");
check_rejected('a wrong conninfo', "[auth]\nhs256_secret_file = $folder/secret\n[feed]\nconninfo = hunter2 x=y\n",
    qr{^clairon relay: \Q$file\E:4: \[feed\] conninfo must be a libpq connection string.*\(libpq: missing "=" after "\.\." in connection info string\)$});
check_rejected("a conninfo with $_->[0]", "[auth]\nhs256_secret_file = $folder/secret\n[feed]\n$_->[1] = $_->[2]\n", "$file:4: [feed] $_->[1] must be $_->[3]") for
  [ 'an unknown option', 'conninfo', 'host=x usr=hunter2 password=hunter2', q{a libpq connection string: keyword=value pairs such as host=/run/postgresql dbname=app user=clairon, a value with blanks in '..', or postgresql://user@host/app (libpq: invalid connection option ".."; did you mean user?)} ],
  [ 'a password with spaces', 'conninfo', 'host=x password=a hunter2=b', qq{a libpq connection string: keyword=value pairs such as host=/run/postgresql dbname=app user=clairon, a value with blanks in '..', or postgresql://user\@host/app (libpq: invalid connection option "..")} ],
  [ 'quotes in its password', 'conninfo', 'postgresql://u:hun"ter2"SECRET"@[::1/x', qq{a libpq connection string: keyword=value pairs such as host=/run/postgresql dbname=app user=clairon, a value with blanks in '..', or postgresql://user\@host/app (libpq: } ];

# Missing settings, and files with invalid contents, are rejected.
my $feed = "[feed]\nconninfo = dbname=x\n";
check_rejected('a missing secret', $feed, qr{\Q$file\E: missing setting \[auth\] hs256_secret_file \(or hs256_secret, public_key_file, jwks_file, jwks_url, or an \[issuer NAME\]\)});

# Keys of issuers.
my ($issuer, $jwks) = ('issuer = https://id.example.org', 'jwks_url = https://id.example.org/jwks');
write_text("$folder/jwks", '{"keys":[]}');
check_rejected('an issuer without a name', valid_settings('[issuer]'), qr{:7: a section of an issuer must be \[issuer NAME\]});
check_rejected('an issuer with an invalid name', valid_settings('[issuer a b]'), qr{:7: a section of an issuer must be \[issuer NAME\]});
check_rejected('a repeated issuer', valid_settings('[issuer a]', $issuer, $jwks, '[issuer a]'), qr{:10: \[issuer a\] is already on line 7: keep one});
check_rejected('two sections of one issuer', valid_settings('[issuer a]', $issuer, $jwks, '[issuer b]', $issuer, $jwks), qr{:10: \[issuer b\] issuer is also that of \[issuer a\]});
check_rejected('a section without an issuer', valid_settings('[issuer a]', $jwks), qr{:7: \[issuer a\] missing setting issuer});
check_rejected('an issuer without keys', valid_settings('[issuer a]', $issuer), qr{:7: \[issuer a\] missing setting jwks_file or jwks_url});
check_rejected('a repeated key of an issuer', valid_settings('[issuer a]', $issuer, $jwks, $jwks), qr{:10: \[issuer\] jwks_url is already set on line 9});
check_rejected('an unknown key of an issuer', valid_settings('[issuer a]', 'leeway = 1s'), qr{:8: \[issuer\] leeway is not a setting});
check_rejected('an issuer as an argument', valid_settings(), qr{argument --issuer\.issuer: \[issuer NAME\] must be in the configuration file}, ['--issuer.issuer=x']);
check_rejected('keys over http', valid_settings('[issuer a]', $issuer, 'jwks_url = http://id.example.org/'), qr{:7: \[issuer a\] jwks_url must start with https://, or set \[auth\] jwks_allow_private});
check_rejected('a missing file of keys', valid_settings('[issuer a]', $issuer, "jwks_file = $folder/none"), qr{:7: \[issuer a\] jwks_file: could not read "\Q$folder\E/none": No such file});
check_rejected('a file without a key', valid_settings('[issuer a]', $issuer, "jwks_file = $folder/jwks"), qr{:7: \[issuer a\] jwks_file: "\Q$folder\E/jwks" has no usable key});
check_rejected('a file that is no JWK Set', valid_settings('[issuer a]', $issuer, "jwks_file = $folder/short"), qr{:7: \[issuer a\] jwks_file: .*/short" is not a JWK Set});
check_rejected('a kind of groups that is reserved', valid_settings('[issuer a]', 'groups_claim = USER=groups'), qr{:8: \[issuer\] groups_claim must be \[KIND=\]path});
check_rejected('a required claim without a value', valid_settings('[issuer a]', 'required = token_use'), qr{:8: \[issuer\] required must be path=value});
check_rejected('a missing conninfo', "[auth]\nhs256_secret_file = $folder/secret\n", qr{\Q$file\E: missing setting \[feed\] conninfo});
check_rejected('a missing secret file', "$feed\[auth]\nhs256_secret_file = $folder/none\n",
    qr{\Q$file\E:4: \[auth\] hs256_secret_file: could not read "\Q$folder\E/none": No such file or directory});
check_rejected('a directory as the secret file', "$feed\[auth]\nhs256_secret_file = $folder/folder\n", qr{:4: .*not a regular file});
check_rejected('a short secret', "$feed\[auth]\nhs256_secret_file = $folder/short\n",
    qr{:4: .*has 5 bytes: an HS256 secret requires at least 32});
check_rejected('a short secret in the file', "$feed\[auth]\nhs256_secret = SECRET\n", qr{:4: .*has 6 bytes});
check_rejected('a second secret', "$feed\[auth]\nhs256_secret = $secret\nhs256_secret_file = $folder/secret\n",
    qr{:4: .*cannot be combined: keep one});
check_rejected('an invalid public key', "$feed\[auth]\npublic_key_file = $folder/secret\n",
    qr{:4: .*must name a PEM file with -----BEGIN PUBLIC KEY-----});
for my $case ([ 'garbage', 'MCowBQ==', 'not a public key in PEM' ],
    [ 'Ed25519', 'MCowBQYDK2VwAyEAi8WmhFG00PpamMgQZpths465hqjQRXFE8082a56g1EI=', 'unsupported key type (ED25519)' ])
{
    write_text("$folder/public", "-----BEGIN PUBLIC KEY-----\n$case->[1]\n-----END PUBLIC KEY-----\n");
    check_rejected("a public key: $case->[0]", "$feed\[auth]\npublic_key_file = $folder/public\n", qr{:4: .*\Q$case->[2]\E.*RSA, or EC on P-256$});
}
check_rejected('a certificate without a key', valid_settings('[gate]', "tls_cert = $folder/secret"), qr{missing setting \[gate] tls_key: required by \Q$file\E:8});

my ($cert, $key) = Clairon::Test::SecureSocket::certificate();
my $pem = 'tls_cert and tls_key must be a PEM certificate and its key: could not';
write_text($file, valid_settings('[gate]', "tls_cert = $cert", "tls_key = $key"));
is((clairon([ 'relay', '-c', $file, '--check' ]))[0], 0, 'a certificate and its key are valid');
check_rejected('a directory as the certificate', valid_settings('[gate]', "tls_cert = $folder/folder", "tls_key = $key"), qr{\[gate\] $pem read \Q$folder\E/folder});
check_rejected('an invalid certificate', valid_settings('[gate]', "tls_cert = $folder/secret", "tls_key = $key"), "$pem read $folder/secret");
check_rejected('a directory as its key', valid_settings('[gate]', "tls_cert = $cert", "tls_key = $folder/folder"), "$pem read $folder/folder");
check_rejected('an invalid key', valid_settings('[gate]', "tls_cert = $cert", "tls_key = $cert"), "$pem read $cert");
rename $key, "$key.other" or die "could not rename: $!\n";
Clairon::Test::SecureSocket::certificate();
check_rejected('a key of another certificate', valid_settings('[gate]', "tls_cert = $cert", "tls_key = $key.other"), "$pem read $key.other");

# Web Push: keys, and origins of push services.
my $vapid = (clairon(['vapid']))[1];
like($vapid, qr/^-----BEGIN PRIVATE KEY-----\n[^-]+-----END PRIVATE KEY-----\n$/, 'clairon vapid prints a private key');
isnt((clairon(['vapid']))[1], $vapid, 'each call prints another key');
is((clairon([ 'vapid', 'x' ]))[0], 2, 'clairon vapid has no operands');
write_text("$folder/$_", $vapid) for 'vapid', 'vapid2';
chmod 0600, "$folder/vapid", "$folder/vapid2";
IPC::Run::run([qw(openssl ecparam -name prime256v1 -genkey)], '>', "$folder/sec1") or die "could not create a key\n";
IPC::Run::run([qw(openssl ecparam -name secp384r1 -genkey -noout)], '>', "$folder/p384") or die "could not create a key\n";
IPC::Run::run([qw(openssl genrsa 2048)], '>', "$folder/rsa", '2>', '/dev/null') or die "could not create a key\n";
chmod 0600, "$folder/sec1";
my @contact = ('subject = mailto:ops@example.org', 'app_url = https://app.example/');
for my $valid ("$folder/vapid", "$folder/sec1", 'vapid', "vapid, $folder/vapid2", 'vapid,vapid2', "vapid\norigins = http://127.0.0.1:99, https://*.push.example,https://[::1]:1")
{
    write_text($file, valid_settings('[webpush]', "vapid_key_file = $valid", @contact));
    is_deeply([ clairon([ 'relay', '-c', $file, '--check' ]) ], [ 0, "settings are valid\n", '' ], "vapid_key_file = $valid is valid");
}
my $of = "$file:8: [webpush] vapid_key_file";
check_rejected("a VAPID key: $_->[0]", valid_settings('[webpush]', "vapid_key_file = $_->[0]", @contact), "$of$_->[1]") for
  [ "$folder/none", qq{: could not read "$folder/none": No such file or directory} ],
  [ 'vapid,none', qq{: could not read "$folder/none": No such file or directory} ],
  [ 'secret', qq{: "$folder/secret" is not a private key in PEM, must be EC on P-256, as printed by clairon vapid} ],
  [ 'p384', qq{: "$folder/p384" has an unsupported key type (EC on secp384r1), must be EC on P-256} ],
  [ 'rsa', qq{: "$folder/rsa" has an unsupported key type (rsaEncryption), must be EC on P-256} ],
  [ 'vapid,', ' must be one or two files, comma-separated' ],
  [ 'vapid,vapid2,vapid', ' must be one or two files, comma-separated' ];
check_rejected("[webpush] $_->[0]", valid_settings('[webpush]', $_->[0]), "$file:8: [webpush] $_->[1]") for
  [ 'timeout = 1', 'timeout must be a duration from 100ms' ],
  [ 'ca_file = none', qq{ca_file: could not read "$folder/none"} ],
  ( map { [ "subject = $_", 'subject must be mailto:you@host or https://host, not at localhost' ] }
      'ops@example.org', 'mailto:ops', 'mailto:@example.org', 'mailto:ops@localhost', 'https://localhost:1/', 'https://127.0.0.1', 'http://example.org', 'https://', 'mailto:a b@example.org' ),
  ( map { [ "app_url = $_", 'app_url must be https://host[:port][/path], without user and fragment' ] }
      'app.example', 'ftp://app.example', 'https://u@app.example/', 'https://app.example/#x', 'https:///x', 'https://app.example/a b' ),
  [ 'max_per_user = 0', 'max_per_user must be a number from 1 to 100' ],
  [ 'keep = 1', 'keep must be a duration from 1s' ],
  map { [ "origins = $_", 'origins must be scheme://host[:port] in lower case without a path, or https://*.domain, comma-separated' ] }
  'push.example', 'ftp://push.example', 'https://Push.example', 'https://push.example/', 'https://u@push.example', 'http://*.push.example', 'https://*', 'https://a.*.example', 'https://*.push.example:1', '*', ',';

check_rejected("a key without $_->[0]", valid_settings('[webpush]', 'vapid_key_file = vapid', $contact[ $_->[1] ]),
    qr{^clairon relay: \Q$file\E: missing setting \[webpush\] $_->[0]: required by vapid_key_file}) for [ 'subject', 1 ], [ 'app_url', 0 ];

# A user who runs commands on the store may have no access to the gate's files.
write_text($file, valid_settings('[gate]', "tls_cert = $folder/none", "tls_key = $folder/none"));
is((clairon([ 'relay', '-c', $file, '--check' ]))[0], 2, 'relay --check requires the certificate of a gate');
for my $command ([ 'errors', 'list' ], [ 'trace', '01890a5d-ac96-774b-bcce-b302099a8057' ])
{
    my ($code, undef, $err) = clairon([ @$command, '-c', $file ]);
    is($code, 1, "$command->[0] does not need the certificate");
    like($err, qr/could not connect/, "$command->[0] connects to the store");
}

# The file cannot be read.
for my $case ([ "$folder/none.conf", 'No such file or directory' ], [ "$folder/folder", 'Is a directory' ])
{
    my ($code, $out, $err) = clairon([ 'relay', '-c', $case->[0] ]);
    is($code, 2, "the relay exits with 2 if its configuration file fails with \"$case->[1]\"");
    is($err, qq(clairon relay: could not read "$case->[0]": $case->[1]\n), "$case->[1] is reported with the path of the file");
}

# The error contains the argument or the variable.
check_rejected('a wrong argument', valid_settings(), 'argument --gate.ping must be a duration', ['--gate.ping=soon']);
check_rejected('an unknown argument', valid_settings(), qr{argument --gate\.pong: \[gate\] pong is not a setting; }, ['--gate.pong=1s']);
check_rejected('an argument without value', valid_settings(), 'argument --gate.ping requires a value', ['--gate.ping']);
check_rejected('a wrong variable', valid_settings(), 'variable CLAIRON_GATE_PING must be a duration', [], CLAIRON_GATE_PING => 'soon');
check_rejected('a wrong secret argument', valid_settings(), 'argument --auth.hs256_secret', ['--auth.hs256_secret=SECRET-too-short']);
check_rejected('an unknown option', valid_settings(), 'unknown argument --fast', ['--fast']);
check_rejected('an unknown operand', valid_settings(), 'unknown argument now', ['now']);
my ($code, $out, $err) = clairon([ 'relay', '-c' ]);
is($code, 2, '-c without a file exits with 2');
like($err, qr/missing value after -c/, '-c without a file is reported');

# A relay that cannot listen logs the address, which shows the source of the setting.
sub listens
{
    my ($arguments, %variables) = @_;
    my ($status, undef, $log) =
      clairon([ 'relay', '-c', $file, '--relay.roles=gate', @$arguments ], %variables);
    is($status, 1, 'a relay that cannot listen fails');
    unlike($log, qr/SECRET|hunter2/, 'the log of a relay that cannot listen contains no secret');
    return $log =~ /could not listen" listen="?unix:([^\s"]+)/ ? $1 : $log;
}
write_text($file, valid_settings('[gate]', "listen = unix:$folder/none/file"));
my @variable = (CLAIRON_GATE_LISTEN => "unix:$folder/none/variable");
my @argument = ("--gate.listen=unix:$folder/none/argument");
is(listens([]), "$folder/none/file", 'a setting of the file applies');
is(listens([], @variable), "$folder/none/variable", 'a variable overrides the file');
is(listens(\@argument, @variable), "$folder/none/argument", 'an argument overrides file and variable');
is(listens([ @argument, "--gate.listen=unix:$folder/none/last" ]), "$folder/none/last", 'the last of two arguments applies');

# An unknown variable with the prefix CLAIRON_ may belong to another program, so it causes only a warning.
write_text($file, valid_settings());
($code, $out, $err) = clairon([ 'relay', '-c', $file, '--check' ], CLAIRON_GATE_PINGS => 'SECRET');
is($code, 0, 'an unknown variable is not an error');
like($err, qr/variable is not a setting.*variable="CLAIRON_GATE_PINGS"/, 'an unknown variable causes a warning');
unlike($err, qr/SECRET/, 'the warning does not contain the value');

# One run reports all errors.
write_text($file, valid_settings('[gates]', 'ping = soon', '[gate]', 'ping = soon', 'listn = 1', '[delivery]', 'window = 0', '[auth]', 'hs256_secret = x'));
($code, $out, $err) = clairon([ 'relay', '-c', $file, '--check', '--gate.workers=0' ], CLAIRON_GATE_DRAIN => 'x');
is($code, 2, '--check exits with 2 for several mistakes');
my @wrong = split /\n/, $err;
is(scalar(@wrong), 7, 'each error has a line, even for conflicting settings') or diag($err);
for my $nth ([ 0, ':7: [gates] is not a section' ], [ 1, ':10: [gate] ping must be a duration' ], [ 2, ':11: [gate] listn is not a setting' ],
    [ 3, ':13: [delivery] window must be' ], [ 4, 'variable CLAIRON_GATE_DRAIN' ], [ 5, 'argument --gate.workers' ])
{
    like($wrong[ $nth->[0] ], qr/^clairon relay: .*\Q$nth->[1]\E/, "error $nth->[0] contains its location");
}
write_text($file, "[gate]\ntls_cert = $folder/none\n[delivery]\nbackoff_base = 1m\nbackoff_cap = 1s\n");
($code, undef, $err) = clairon([ 'relay', '-c', $file, '--check' ]);
is(scalar(() = $err =~ /\n/g), 4, 'each conflicting setting has a line') or diag($err);
like($err, qr/missing setting \[feed\] conninfo.*backoff_cap must not be less.*missing setting \[gate\] tls_key.*missing setting \[auth\]/s, 'each conflicting setting is reported');

# One run reports errors of syntax, values, missing settings, referenced files, and files that OpenSSL rejects.
write_text($file, join "\n", '[feed', 'conninfo = dbname=x', '[gate]', 'ping', "tls_cert = $cert", "tls_key = $folder/short", 'drain = x', '[auth]', "hs256_secret_file = $folder/none", '');
($code, undef, $err) = clairon([ 'relay', '-c', $file, '--check' ]);
is($code, 2, '--check exits with 2 for mistakes of all kinds');
@wrong = split /\n/, $err;
my @kinds = ("$file:1: a section must be", "$file:4: a line must be", "$file:7: [gate] drain must be", "$file: missing setting [feed] conninfo",
    "$file:9: [auth] hs256_secret_file: could not read", "$file:5: [gate] tls_cert and tls_key must be a PEM certificate and its key");
is(scalar(@wrong), scalar(@kinds), 'all errors are reported in one run') or diag($err);
is(index($wrong[$_] // '', "clairon relay: $kinds[$_]"), 0, "mistakes of all kinds include $kinds[$_]") for 0 .. $#kinds;
write_text($file, "[relay]\nroles = gat\n[feed]\nconninfo = x\n[auth]\nhs256_secret = SECRET+\n");
($code, undef, $err) = clairon([ 'relay', '-c', $file, '--check', '--auth.leeway=x' ]);
is(scalar(() = $err =~ /\n/g), 3, 'an invalid setting is reported once') or diag($err);
unlike($err, qr/missing setting/, 'an invalid setting is not reported as missing');

# A relative path is reported with its folder.
for my $case ([ [ '--auth.hs256_secret_file=no-secret' ], 'no-secret' ], [ [ '--auth.public_key_file=no-key', '--auth.hs256_secret_file=' ], 'no-key' ],
    [ [ '--store.tls_ca=no-ca' ], 'no-ca' ], [ [ '--feed.conninfo=dbname=x passfile=no-pass' ], 'no-pass' ],
    [ [ '--feed.primary_conninfo=dbname=x passfile=no-file' ], 'no-file' ], [ [ '-c', 'no.conf' ], 'no.conf' ])
{
    my ($command, $path) = @$case;
    write_text($file, valid_settings());
    ($code, undef, $err) = clairon([ 'relay', '--check', (grep { $_ eq '-c' } @$command) ? () : ('-c', $file), @$command ]);
    is($code, 2, "--check exits with 2 for the missing file $path");
    like($err, qr/could not read "\Q$path\E" in folder "\Q@{[ Cwd::getcwd() ]}\E": No such file or directory$/, "$path is reported with its folder");
}

# Secrets that other users can read cause a warning.
write_text($file, valid_settings());
chmod 0644, $file, "$folder/secret" or die "could not chmod: $!\n";
($code, undef, $err) = clairon([ 'relay', '-c', $file, '--check', '--store.url=redis://me:hunter2@127.0.0.1:1' ]);
is($code, 0, 'a secret that other users can read is not an error');
like($err, qr/level=warn .*secret in an argument .*section="store" setting="url" variable="CLAIRON_STORE_URL"/, 'an argument with a password causes a warning');
like($err, qr/level=warn .*with a secret is accessible to all users: run chmod o=" path="\Q$file\E/, 'a configuration file with a password that other users can read causes a warning');
like($err, qr/level=warn .*accessible to all users.*section="auth" setting="hs256_secret_file"/, 'a secret file that other users can read causes a warning');
unlike($err, qr/hunter2|SECRET/, 'the warnings do not contain the secret');
chmod 0600, $file, "$folder/secret" or die "could not chmod: $!\n";
is((clairon([ 'relay', '-c', $file, '--check', '--store.url=redis://127.0.0.1:1' ], CLAIRON_FEED_CONNINFO => 'dbname=x password=hunter2'))[2], '',
    'a variable, a private file, and an argument without a secret cause no warning');
like((clairon([ 'relay', '-c', $file, '--check', "--auth.hs256_secret=$secret", '--auth.hs256_secret_file=' ]))[2], qr/secret in an argument.*setting="hs256_secret" variable="CLAIRON_AUTH_HS256_SECRET/,
    'a secret as an argument causes a warning');
check_rejected('a store without a port', "${start}url = redis://cache\n", 'the port is missing, usually :6379');
check_rejected('an origin with a wildcard', valid_settings('[gate]', 'origins = https://*.example.org'), 'must list each origin: * inside an origin is not supported');

# A failed write to the output is an error.
write_text($file, valid_settings());
for my $command ([ 'relay', '-c', $file, '--check' ], ['--version'], ['--help'])
{
    is(system('sh', '-c', 'exec "$@" >/dev/full', '-', Clairon::Test::program(), @$command) >> 8, 1, "@$command on a full disk fails");
}

# The help lists all settings.
($code, $out, $err) = clairon([ 'relay', '--help' ]);
is($code, 0, '--help exits with 0');
like($out, qr/--feed\.conninfo=TEXT\n[^\n]* \(required with role feed\)\n/, 'required settings of the feed are marked');
like($out, qr/--auth\.$_=(?:TEXT|FILE)\n[^\n]* \(required with role gate: one of hs256_secret_file, hs256_secret, public_key_file, jwks_file, jwks_url, or an \[issuer NAME\]\)\n/, "auth.$_ is marked as one of several")
  for qw(hs256_secret_file hs256_secret public_key_file jwks_file jwks_url);
is(scalar(() = $out =~ /\(required/g), 6, 'all other settings have a default');
like($out, qr/--gate\.ping=DURATION\n.*100ms to 1h.*default: 25s/, 'a setting is printed with its range and default');
my @sections = $out =~ /^\[(\w+)(?:\]| NAME\], several, only in the configuration file)$/mg;
is_deeply([@sections], [qw(feed store auth issuer gate delivery rows receipts webhook webpush sink relay)], 'the settings are printed in sections');
like($out, qr/^\[feed\]\n  --feed\.conninfo=.*^\[gate\]\n  --gate\.listen=.*\n.*\n  --gate\.origins=/ms, 'required settings come first');
my ($gate) = $out =~ /^(\[gate\]\n.*?)\n\[/ms;
is_deeply([ clairon([ 'relay', '--help', 'gate' ]) ], [ 0, $gate, '' ], '--help gate prints one section');
is((clairon([ 'relay', '--help', 'gates' ]))[0], 2, 'an unknown section is rejected');
open my $table, '<', top() . '/relay/base/config_table.c' or die "could not read the table: $!\n";
my %in_table = map { /^    \{ "(\w+)", "/ ? ($1 => 1) : () } <$table>;
is_deeply([ sort keys %in_table ], [ sort @sections ], 'all sections are in the help');
is((clairon(['--help']))[0], 0, 'clairon --help exits with 0');
($code, $out, $err) = clairon(['dance']);
is($code, 2, 'an unknown command exits with 2');
like($err, qr/unknown command "dance", valid are relay/, 'an unknown command is reported with the valid commands');

done_testing();
