# Does a token give exactly what its issuer signed, no longer than it says, and never more than a relay allows?
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
    conf => { 'auth.leeway' => '0s', 'gate.connect_timeout' => '1s' });    # a short one: timers look often
my $later = time() + 3600;
my $later_text = sprintf '%d', $later;    # JSON::XS quotes a number that was interpolated
my @seen;    # every token: none of them may stand in a log

# A token of these parts, each a reference or the text of its JSON; `$sign` gives the signature.
sub made
{
    my ($header, $claims, $sign) = @_;
    my $text = join '.', map { encode_base64url(ref $_ ? $json->encode($_) : $_) } $header, $claims;
    return "$text." . encode_base64url($sign->($text));
}

sub hs256 { return hmac_sha256($_[0], $Clairon::Test::SECRET) }

# Connects with the token: the user it is for, else the code of the close. What is said before
# the close must fit it.
sub judged
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
    return "$end->{code}, but said " . $json->encode($line)
      if "$line->{t} $line->{code} $line->{r}" ne "err $wanted 1" || $end->{messages}[0]{t} ne 'bye';
    return $end->{code};
}

sub is_judged { my ($token, $wanted, $name) = @_; is(judged($relay, $token), $wanted, $name); return }

# Who signed it.
my %good = (sub => 'u1', exp => $later);
my $good = token(%good);
is_judged($good, 'u1', 'a good token');
is_judged(undef, 4001, 'no token');
is_judged('', 4001, 'an empty one');
is_judged(token(%good, secret => 'another secret of at least 32 bytes'), 4001, 'another\'s secret');
my ($header, $claims, $signature) = split /\./, $good;
my $other = encode_base64url($json->encode({ %good, sub => 'u2' }));
is_judged("$header.$other.$signature", 4001, 'other claims below the same signature');
is_judged(made({ alg => 'none' }, \%good, sub { '' }), 4001, 'alg none');
is_judged(made({ alg => 'none' }, \%good, \&hs256), 4001, 'alg none with a signature');
is_judged("$header.$claims.", 4001, 'no signature');
is_judged("$header.$claims", 4001, 'nor a place for it');
is_judged(made({ alg => 'HS512' }, \%good, sub { hmac_sha512($_[0], $Clairon::Test::SECRET) }), 4001,
    'another algorithm with our secret');
is_judged(made({ alg => 'RS256' }, \%good, \&hs256), 4001, 'a wrong name of the algorithm');
is_judged(made({ typ => 'JWT' }, \%good, \&hs256), 4001, 'no algorithm');
is_judged(made('nonsense', \%good, \&hs256), 4001, 'a header that is no JSON');
is_judged(made({ alg => 'HS256' }, 'nonsense', \&hs256), 4001, 'claims that are no JSON');
is_judged(made({ alg => 'HS256' }, '[1]', \&hs256), 4001, 'claims that are an array');
is_judged("$good.$signature", 4001, 'four parts');
is_judged("$good=", 4001, 'padding');
is_judged("$good ", 4001, 'a blank behind it');
is_judged(substr($good, 0, -1), 4001, 'a signature cut short');
is_judged(token(%good, more => 'x' x 9000), 4001, 'longer than any token');
is_judged("..", 4001, 'dots');
is_judged("\x{e9}.\x{e9}.\x{e9}", 4001, 'no base64');

# How long it lasts.
is_judged(token(sub => 'u1', exp => time() - 1), 4100, 'expired');
is_judged(token(sub => 'u1', exp => 0), 4100, 'expired long ago');
is_judged(token(%good, secret => 'x' x 32, exp => 1), 4001, 'expired and forged is forged');
is_judged(token(sub => 'u1', exp => undef), 4001, 'no exp');
is_judged(token(sub => 'u1', exp => $later_text), 4001, 'an exp that is a string');
is_judged(token(sub => 'u1', exp => -1), 4001, 'one before all time');
is_judged(made({ alg => 'HS256' }, qq({"sub":"u1","exp":$_}), \&hs256), 4001, "exp $_")
  for '1e300', 'null', 'true', '[4000000000]', '99999999999999999999';
is_judged(made({ alg => 'HS256' }, qq({"sub":"u1","exp":$later_text.5}), \&hs256), 'u1', 'a fraction is a time');
is_judged(token(%good, nbf => time() + 600), 4001, 'not valid yet');
is_judged(token(%good, nbf => time() - 600), 'u1', 'valid since a while');

# Whom it names.
is_judged(token(%good, sub => $_->[0]), $_->[1], "sub $_->[2]") for
  [ undef, 4001, 'missing' ], [ '', 4001, 'empty' ], [ 17, 4001, 'a number' ], [ ['u1'], 4001, 'a list' ],
  [ 'x' x 256, 4001, 'of 256 bytes' ], [ 'x' x 255, 'x' x 255, 'of 255 bytes' ],
  [ "u\x{e9}\x{20ac} \"1\\", "u\x{e9}\x{20ac} \"1\\", 'of any letters' ], [ "u1\0u2", 4001, 'with a NUL' ];
my $forger = "u1\nwho=relay level=error msg=\"forged\"\r\n";
is_judged(token(%good, sub => $forger), $forger, 'sub of several lines');
unlike($relay->log_text, qr/^who=relay level=error/m, 'makes no line of its own in the log');

# The groups it may give.
is_judged(token(%good, groups => $_->[0]), $_->[1], "groups: $_->[2]") for
  [ {}, 'u1', 'none' ], [ { STRUCTURE => ['s1'], ROLE => [ 'admin', 'teacher' ] }, 'u1', 'some' ],
  [ { STRUCTURE => [] }, 'u1', 'an empty list' ],
  [ { USER => ['u2'] }, 4001, 'another user' ], [ { user => ['u2'] }, 4001, 'another user in small letters' ],
  [ { ALL => ['x'] }, 4001, 'everyone' ], [ { '' => ['x'] }, 4001, 'no name' ],
  [ { STRUCTURE => 's1' }, 4001, 'a text for a list' ], [ ['s1'], 4001, 'a list for an object' ],
  [ 'STRUCTURE', 4001, 'a text' ], [ { STRUCTURE => [17] }, 4001, 'a number in it' ],
  [ { STRUCTURE => [''] }, 4001, 'an empty target' ], [ { STRUCTURE => [ ['s1'] ] }, 4001, 'a list in it' ],
  [ { STRUCTURE => [ 'x' x 256 ] }, 4001, 'a target of 256 bytes' ],
  [ { 'S' x 64 => ['s1'] }, 4001, 'an audience of 64 bytes' ],
  [ { STRUCTURE => [ 1 .. 256 ] }, 4001, '256 numbers' ],
  [ { STRUCTURE => [ map { "s$_" } 1 .. 256 ] }, 'u1', '256 targets' ],
  [ { STRUCTURE => [ map { "s$_" } 1 .. 129 ], ROLE => [ map { "r$_" } 1 .. 128 ] }, 4001, '257 targets' ];
is_judged(token(%good, publish => 'yes'), 'u1', 'a publish that is not true grants nothing, and refuses nothing');

# The same with a public key: what the header says of the algorithm is not believed.
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
is(judged($strict, made(\%rs256, \%good, \&rs256)), 'u1', 'a token signed with the private key');
is(judged($strict, made({ alg => 'HS256' }, \%good, sub { hmac_sha256($_[0], $public) })), 4001,
    'the public key is no secret');
is(judged($strict, made({ alg => 'none' }, \%good, sub { '' })), 4001, 'nor may a signature be left out');
is(judged($strict, made(\%rs256, \%good, sub { 'x' x 256 })), 4001, 'or be made up');
is(judged($strict, made(\%rs256, { %good, @$_ }, \&rs256)), 4001, "$_->[0] is not ours")
  for [ iss => 'https://else.example' ], [ iss => undef ], [ aud => 'other' ], [ aud => [] ];
$relay->write_file("$folder/rsa.pub", "-----BEGIN PUBLIC KEY-----\nMCowBQ==\n-----END PUBLIC KEY-----\n");
kill HUP => $strict->pid;
$strict->wait_for_log(qr/auth key unchanged.*not the PEM of a public key/);
is(judged($strict, made(\%rs256, \%good, \&rs256)), 'u1', 'a key file that has become garbage changes nothing');
$strict->stop;

# While a connection is open.
sub user { my ($user, %claims) = @_; return Clairon::Test::RawSocket->user($relay, $user, %claims) }

# Says a refresh; the line that answers it.
sub refresh
{
    my ($raw, $token) = @_;
    $raw->send_json({ t => 'refresh', r => 2, token => $token });
    return $raw->wait_message('refreshed');
}

sub refresh_ends
{
    my ($token, $err, $code, $name, %claims) = @_;
    my $raw = user('u1', %claims);
    $raw->send_json({ t => 'refresh', r => 2, token => $token });
    my $end = $raw->read_to_end;
    is_deeply([ map { $_->{code} } @{ $end->{messages} } ], [ $err // (), $code ], "$name: said before the close");
    is($end->{code}, $code, "$name: closed with $code");
    return;
}

# A short token is told of once most of its time is over: who was told at once would ask again and again.
my ($minute, $stream) = (user('u1', exp => time() + 50), Clairon::Test::EventStream->open($relay, 'u7', ':claims' => { exp => time() + 50 }));
$stream->wait_message('connected');
my $soon  = time() + 3;
my $short = user('u1', exp => $soon);
my $kept  = user('u1', exp => $soon);
my $told  = $short->wait_message('expiring');
cmp_ok($told->{in}, '<=', 3, 'who has little time left is told how little');
$kept->wait_message('expiring');
$minute->send_json({ t => 'ping' });
is($minute->next_message->{t}, 'pong', 'who has a short token, but four fifths of it left, is told nothing yet');
my $note = '{"payload":{},"routing":{"audience":{"type":"USER","targets":["u7"]}}}';
my $post = Clairon::Test::RawSocket->new($relay);
$post->write("POST /v1/notifications HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " . token(sub => 'api', publish => JSON::true)
      . "\r\nContent-Length: " . length($note) . "\r\n\r\n$note");
is($stream->event->{t}, 'msg', 'nor on a stream');
$_->disconnect for $minute, $stream;
is(refresh($kept, token(sub => 'u1', exp => 0 + $later))->{exp}, $later, 'a new token is taken');

refresh_ends(token(sub => 'u2'), 101, 4001, 'a refresh to another user');
refresh_ends(token(sub => 'u1', secret => 'x' x 32), 101, 4001, 'a forged refresh');
refresh_ends(token(sub => 'u1', exp => 1), 109, 4100, 'an expired refresh');
refresh_ends(token(sub => 'u1', groups => { ROLE => ['admin'] }), undef, 4201, 'a refresh to other groups');
refresh_ends(token(sub => 'u1'), undef, 4201, 'a refresh to no groups', groups => { ROLE => ['admin'] });
my $grouped = user('u1', groups => { ROLE => ['admin'] });
is(refresh($grouped, token(sub => 'u1', exp => 0 + $later, groups => { ROLE => ['admin'] }))->{exp}, $later,
    'a refresh to the same groups');
my ($one, $other) = map { made({ alg => 'HS256' }, qq({"sub":"u1","exp":$later_text,"groups":$_}), \&hs256) } '{"ROLE":["a","b"],"TEAM":["c"]}', '{"TEAM":["c"],"ROLE":["b","a"]}';
is(refresh(Clairon::Test::RawSocket->user($relay, 'u1', token => $one), $other)->{exp}, $later, 'also in another order');

$grouped->disconnect;

my $end = $short->read_to_end;
is($end->{code}, 4100, 'a token\'s end is the connection\'s');
is($end->{messages}[-1]{code}, 4100, 'after a bye');
cmp_ok(time(), '>=', $soon, 'and not before');
$kept->send_json({ t => 'ping' });
is($kept->wait_message('pong')->{t}, 'pong', 'who refreshed in time stays');
refresh($kept, token(sub => 'u1', exp => time() + 2));
cmp_ok($kept->wait_message('expiring')->{in}, '<=', 2, 'a token may be shorter than the one before');
is($kept->read_to_end->{code}, 4100, 'and ends the connection then');

# Nothing secret in the log, at its most talkative.
my $log = $relay->log_text . $strict->log_text;
like($log, qr/level=debug/, 'the log is at debug');
is(scalar(grep { index($log, $_) >= 0 } @seen, map { (split /\./)[2] || $_ } @seen), 0,
    'no token and no signature stands in it');
is(index($log, $Clairon::Test::SECRET), -1, 'nor the secret');
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

done_testing();
