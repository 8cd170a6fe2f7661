# Tests that a token grants exactly its signed claims until its expiration, within the relay's limits.
use strict;
use warnings;

use Clairon::Test qw(token scratch);
use Clairon::Test::EventStream;
use Clairon::Test::RawSocket;
use Digest::SHA qw(hmac_sha256 hmac_sha512);
use JSON ();
use MIME::Base64 qw(encode_base64url);
use Test::More;

my $json  = JSON->new->canonical->utf8;
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate',
    conf => { 'auth.leeway' => '0s', 'gate.connect_timeout' => '5s' });    # a short timeout makes timers run often
my $later = time() + 3600;
my $later_text = sprintf '%d', $later;    # JSON::XS quotes an interpolated number
my @seen;    # all tokens, none of which may be logged

# Creates a token of these parts, each a reference or a JSON string; `$sign` returns the signature.
sub signed
{
    my ($header, $claims, $sign) = @_;
    my $text = join '.', map { encode_base64url(ref $_ ? $json->encode($_) : $_) } $header, $claims;
    return "$text." . encode_base64url($sign->($text));
}

sub hs256 { return hmac_sha256($_[0], $Clairon::Test::SECRET) }

# Connects with the token. Returns the user named by `connected`, or the close code. The frames before the close must
# match the code.
sub token_result
{
    my ($to, $token) = @_;
    my $raw = Clairon::Test::RawSocket->open($to);
    $raw->send_json({ t => 'connect', r => 1, defined $token ? (token => $token) : () });
    push @seen, $token if length($token // '') > 20;
    my $line = $raw->next_message;
    if ($line->{t} eq 'connected')
    {
        $raw->disconnect;
        return $line->{user};
    }
    my $end    = $raw->read_to_end;
    my $wanted = { 4001 => 101, 4100 => 109 }->{ $end->{code} } // 'no such code';
    return "$end->{code}, but sent " . $json->encode($line)
      if "$line->{t} $line->{code} $line->{r}" ne "err $wanted 1" || $end->{messages}[0]{t} ne 'bye';
    return $end->{code};
}

# $wanted: the token's user, or the close code.
sub check_token
{
    my ($token, $wanted, $name) = @_;
    my $result = $wanted =~ /^4\d\d\d$/ ? "is rejected with $wanted" : 'is accepted';
    is(token_result($relay, $token), $wanted, "$name $result");
    return;
}

# The signature is verified.
my %good = (sub => 'u1', exp => $later);
my $good = token(%good);
check_token($good, 'u1', 'a valid token');
check_token(undef, 4001, 'a connect without a token');
check_token('', 4001, 'an empty token');
check_token(token(%good, secret => 'another secret of at least 32 bytes'), 4001, 'a token signed with another secret');
my ($header, $claims, $signature) = split /\./, $good;
my $other = encode_base64url($json->encode({ %good, sub => 'u2' }));
check_token("$header.$other.$signature", 4001, 'a token with changed claims');
check_token(signed({ alg => 'none' }, \%good, sub { '' }), 4001, 'a token with alg none');
check_token(signed({ alg => 'none' }, \%good, \&hs256), 4001, 'a token with alg none and a signature');
check_token("$header.$claims.", 4001, 'a token with an empty signature');
check_token("$header.$claims", 4001, 'a token without a signature part');
check_token(signed({ alg => 'HS512' }, \%good, sub { hmac_sha512($_[0], $Clairon::Test::SECRET) }), 4001,
    'a token signed by another algorithm with the secret');
check_token(signed({ alg => 'RS256' }, \%good, \&hs256), 4001, 'a token with a wrong algorithm name');
check_token(signed({ typ => 'JWT' }, \%good, \&hs256), 4001, 'a token without an algorithm');
check_token(signed('nonsense', \%good, \&hs256), 4001, 'a token with a header that is not JSON');
check_token(signed({ alg => 'HS256' }, 'nonsense', \&hs256), 4001, 'a token with claims that are not JSON');
check_token(signed({ alg => 'HS256' }, '[1]', \&hs256), 4001, 'a token with an array of claims');
check_token("$good.$signature", 4001, 'a token with four parts');
check_token("$good=", 4001, 'a token with padding');
check_token("$good ", 4001, 'a token with a trailing space');
check_token(substr($good, 0, -1), 4001, 'a token with a truncated signature');
check_token(token(%good, more => 'x' x 9000), 4001, 'a token longer than the limit');
check_token("..", 4001, 'a token of empty parts');
check_token("\x{e9}.\x{e9}.\x{e9}", 4001, 'a token with invalid base64');

# exp and nbf are verified.
check_token(token(sub => 'u1', exp => time() - 1), 4100, 'an expired token');
check_token(token(sub => 'u1', exp => 0), 4100, 'a token that expired many years ago');
check_token(token(%good, secret => 'x' x 32, exp => 1), 4001, 'an expired token with a forged signature');
check_token(token(sub => 'u1', exp => undef), 4001, 'a token without exp');
check_token(token(sub => 'u1', exp => $later_text), 4001, 'a token with a string as exp');
check_token(token(sub => 'u1', exp => -1), 4001, 'a token with a negative exp');
check_token(signed({ alg => 'HS256' }, qq({"sub":"u1","exp":$_}), \&hs256), 4001, "a token with exp $_")
  for '1e300', 'null', 'true', '[4000000000]', '99999999999999999999';
check_token(signed({ alg => 'HS256' }, qq({"sub":"u1","exp":$later_text.5}), \&hs256), 'u1', 'a token with a fractional exp');
check_token(token(%good, nbf => time() + 600), 4001, 'a token that is not valid yet');
check_token(token(%good, nbf => time() - 600), 'u1', 'a token with nbf in the past');

# The user is a string of 1 to 255 bytes.
check_token(token(%good, sub => $_->[0]), $_->[1], "a token with $_->[2] as sub") for
  [ undef, 4001, 'nothing' ], [ '', 4001, 'an empty string' ], [ 17, 4001, 'a number' ], [ ['u1'], 4001, 'a list' ],
  [ 'x' x 256, 4001, '256 bytes' ], [ 'x' x 255, 'x' x 255, '255 bytes' ],
  [ "u\x{e9}\x{20ac} \"1\\", "u\x{e9}\x{20ac} \"1\\", 'non-ASCII letters' ], [ "u1\0u2", 4001, 'a string with a NUL' ];
my $forger = "u1\ncomponent=relay level=error msg=\"forged\"\r\n";
check_token(token(%good, sub => $forger), 4001, 'a token with line breaks in sub');
unlike($relay->log_text, qr/^component=relay level=error/m, 'a user name with line breaks creates no log line');

# The groups are lists of targets for each audience.
check_token(token(%good, groups => $_->[0]), $_->[1], "a token with $_->[2] as groups") for
  [ {}, 'u1', 'an empty object' ], [ { STRUCTURE => ['s1'], ROLE => [ 'admin', 'teacher' ] }, 'u1', 'two audiences' ],
  [ { STRUCTURE => [] }, 'u1', 'an audience without targets' ],
  [ { USER => ['u2'] }, 4001, 'another user' ], [ { user => ['u2'] }, 4001, 'another user in lower case' ],
  [ { ALL => ['x'] }, 4001, 'the audience ALL' ], [ { '' => ['x'] }, 4001, 'an audience without a name' ],
  [ { STRUCTURE => 's1' }, 4001, 'a string instead of a list' ], [ ['s1'], 'u1', 'a list, of the kind ROLE,' ],
  [ 'STRUCTURE', 'u1', 'a string, which is ignored,' ], [ [17], 4001, 'a list of numbers' ], [ { STRUCTURE => [17] }, 4001, 'a number as a target' ],
  [ { STRUCTURE => [''] }, 4001, 'an empty target' ], [ { STRUCTURE => [ ['s1'] ] }, 4001, 'a list as a target' ],
  [ { STRUCTURE => [ 'x' x 256 ] }, 4001, 'a target of 256 bytes' ],
  [ { 'S' x 64 => ['s1'] }, 4001, 'an audience of 64 bytes' ],
  [ { STRUCTURE => [ 1 .. 256 ] }, 4001, '256 numbers' ],
  [ { STRUCTURE => [ map { "s$_" } 1 .. 256 ] }, 'u1', '256 targets' ],
  [ { STRUCTURE => [ map { "s$_" } 1 .. 129 ], ROLE => [ map { "r$_" } 1 .. 128 ] }, 4001, '257 targets' ];
check_token(token(%good, publish => 'yes'), 'u1', 'a token with a publish claim that is not true');

# With a public key configured, the relay ignores the algorithm in the token's header.
my $folder = scratch();
system("openssl genrsa -out $folder/rsa.pem 2048 2>/dev/null && "
      . "openssl rsa -in $folder/rsa.pem -pubout -out $folder/rsa.pub 2>/dev/null") == 0
  or die "could not make a key with openssl\n";
my $public = PostgreSQL::Test::Utils::slurp_file("$folder/rsa.pub");
my $strict = Clairon::Test::relay(undef, $store, roles => 'gate', conf => {
    'auth.hs256_secret_file' => undef, 'auth.public_key_file' => "$folder/rsa.pub",
    'auth.issuer' => 'https://issuer.example', 'auth.audience' => 'clairon' });

sub rs256
{
    my ($text) = @_;
    open my $file, '>', "$folder/text" or die "could not write: $!\n";
    print {$file} $text;
    close $file or die "could not write: $!\n";
    my $bytes = qx{openssl dgst -sha256 -sign $folder/rsa.pem $folder/text};
    return $bytes;
}
%good = (%good, iss => 'https://issuer.example', aud => [ 'other', 'clairon' ]);
my %rs256 = (alg => 'RS256', typ => 'JWT');
is(token_result($strict, signed(\%rs256, \%good, \&rs256)), 'u1', 'a token signed with the private key is accepted');
is(token_result($strict, signed({ alg => 'HS256' }, \%good, sub { hmac_sha256($_[0], $public) })), 4001,
    'the public key is rejected as an HS256 secret');
is(token_result($strict, signed({ alg => 'none' }, \%good, sub { '' })), 4001, 'a missing signature is rejected');
is(token_result($strict, signed(\%rs256, \%good, sub { 'x' x 256 })), 4001, 'an invalid signature is rejected');
is(token_result($strict, signed(\%rs256, { %good, @$_ }, \&rs256)), 4001, "$_->[0] is rejected")
  for [ iss => 'https://else.example' ], [ iss => undef ], [ aud => 'other' ], [ aud => [] ];
$relay->write_file("$folder/rsa.pub", "-----BEGIN PUBLIC KEY-----\nMCowBQ==\n-----END PUBLIC KEY-----\n");
kill HUP => $strict->pid;
$strict->wait_for_log(qr/could not reload the auth key.*not a public key in PEM/);
is(token_result($strict, signed(\%rs256, \%good, \&rs256)), 'u1', 'an invalid key file keeps the previous key');
cmp_ok($strict->metric(qq{clairon_gate_tokens_rejected_total{reason="$_"}}), '>', 0, "tokens of another $_ are counted") for 'issuer', 'audience';
$strict->stop;

# Tokens are also checked while a connection is open.
sub user { my ($user, %claims) = @_; return Clairon::Test::RawSocket->user($relay, $user, %claims) }

# Sends a refresh; returns the reply.
sub refresh
{
    my ($raw, $token) = @_;
    $raw->send_json({ t => 'refresh', r => 2, token => $token });
    return $raw->wait_message('refreshed');
}

sub check_refresh_closes
{
    my ($token, $err, $code, $name, %claims) = @_;
    my $raw = user('u1', %claims);
    $raw->send_json({ t => 'refresh', r => 2, token => $token });
    my $end = $raw->read_to_end;
    is_deeply([ map { $_->{code} } @{ $end->{messages} } ], [ $err // (), $code ],
        "$name causes the expected frames before the close");
    is($end->{code}, $code, "$name closes the connection with $code");
    return;
}

# The relay announces the expiration of a short token only late in its lifetime: otherwise the client would refresh in a
# loop.
my ($minute, $stream) = (user('u1', exp => time() + 50), Clairon::Test::EventStream->open($relay, 'u7', ':claims' => { exp => time() + 50 }));
$stream->wait_message('connected');
my $expires_s  = time() + 8;
my $short = user('u1', exp => $expires_s);
my $kept  = user('u1', exp => $expires_s);
is(refresh($kept, token(sub => 'u1', exp => 0 + $later))->{exp}, $later, 'a new token is accepted');
my $expiring  = $short->wait_message('expiring');
cmp_ok($expiring->{in}, '<=', 8, 'the expiring frame has the remaining time');
$minute->send_json({ t => 'ping' });
is($minute->next_message->{t}, 'pong', 'a token with more than four fifths of its lifetime left is not announced as expiring');
my $body = '{"payload":{},"routing":{"audience":{"type":"USER","targets":["u7"]}}}';
my $post = Clairon::Test::RawSocket->new($relay);
$post->write("POST /v1/notifications HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " . token(sub => 'api', publish => JSON::true)
      . "\r\nContent-Length: " . length($body) . "\r\n\r\n$body");
is($stream->event->{t}, 'msg', 'an SSE stream with this token receives no expiring frame');
$_->disconnect for $minute, $stream;

check_refresh_closes(token(sub => 'u2'), 101, 4001, 'a refresh to another user');
check_refresh_closes(token(sub => 'u1', secret => 'x' x 32), 101, 4001, 'a forged refresh');
check_refresh_closes(token(sub => 'u1', exp => 1), 109, 4100, 'an expired refresh');
check_refresh_closes(token(sub => 'u1', groups => { ROLE => ['admin'] }), undef, 4201, 'a refresh to other groups');
check_refresh_closes(token(sub => 'u1'), undef, 4201, 'a refresh to no groups', groups => { ROLE => ['admin'] });
my $grouped = user('u1', groups => { ROLE => ['admin'] });
is(refresh($grouped, token(sub => 'u1', exp => 0 + $later, groups => { ROLE => ['admin'] }))->{exp}, $later,
    'a refresh to the same groups is accepted');
my ($one, $reordered) = map { signed({ alg => 'HS256' }, qq({"sub":"u1","exp":$later_text,"groups":$_}), \&hs256) } '{"ROLE":["a","b"],"TEAM":["c"]}', '{"TEAM":["c"],"ROLE":["b","a"]}';
is(refresh(Clairon::Test::RawSocket->user($relay, 'u1', token => $one), $reordered)->{exp}, $later, 'a refresh to the same groups in another order is accepted');

$grouped->disconnect;

my $end = $short->read_to_end;
is($end->{code}, 4100, 'an expired token closes the connection with 4100');
is($end->{messages}[-1]{code}, 4100, 'the last frame before the close is a bye with code 4100');
cmp_ok(time(), '>=', $expires_s, 'the connection stays open until the token expires');
$kept->send_json({ t => 'ping' });
is($kept->wait_message('pong')->{t}, 'pong', 'a refreshed connection stays open');
refresh($kept, token(sub => 'u1', exp => time() + 5));
cmp_ok($kept->wait_message('expiring')->{in}, '<=', 5, 'a new token that expires earlier than the previous token is accepted');
is($kept->read_to_end->{code}, 4100, 'the connection closes with 4100 when the new token expires');

# Each rejected token is counted by its reason; a wrong key is a warning.
for my $reason (qw(malformed algorithm signature claims not_yet_valid expired))
{
    cmp_ok($relay->metric(qq{clairon_gate_tokens_rejected_total{reason="$reason"}}), '>', 0, "rejected tokens are counted: $reason");
}
like($relay->log_text, qr/level=warn .*token rejected".* error="invalid token signature"/, 'an invalid signature is a warning');
unlike($relay->log_text, qr/level=warn .*token rejected".* error="token /, 'other rejected tokens are not');

# The log contains no secrets, even at debug level.
my $log = $relay->log_text . $strict->log_text;
like($log, qr/level=debug/, 'the relay logs at level debug');
is(scalar(grep { index($log, $_) >= 0 } @seen, map { (split /\./)[2] || $_ } @seen), 0,
    'the log has no token and no signature');
is(index($log, $Clairon::Test::SECRET), -1, 'the log has no secret');
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

done_testing();
