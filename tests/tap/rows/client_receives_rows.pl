# Tests that clients receive the rows of live rules, over WebSocket in pages and over HTTP in one response. All rules
# without access return the same error.
use strict;
use warnings;

use Clairon::Test qw(token);
use Clairon::Test::StubRows;
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $stub  = Clairon::Test::StubRows->new($pg);
my $relay = Clairon::Test::relay($pg, $store, conf => { 'rows.max_rows' => 5000, 'rows.max_bytes' => '4MB' });
my $next  = 10;

# Requests rows; returns the pages, or the error.
sub rows
{
    my ($client, %fields) = @_;
    my $r = ++$next;
    $client->send({ t => 'rows', r => $r, %fields });
    my @pages;
    do
    {
        push @pages, $client->wait_for(sub { ($_[0]{r} // 0) == $r && !grep { $_ == $_[0] } @pages });
    } while ($pages[-1]{more});
    return @pages;
}

sub http
{
    my ($path, %claims) = @_;
    my ($status, $body) = $relay->get($path, Authorization => 'Bearer ' . token(sub => 'u1', %claims));
    return ($status, eval { JSON::decode_json($body) });
}

sub numbers { return join ' ', map { $_->{id} } @{ $_[0] } }

$stub->set('t', row_count => 3);
$stub->set('public_list', audience => 'ALL', row_count => 2);
my $client = $relay->client('u1', groups => { STRUCTURE => [ 's1', "s'2" ], ROLE => ['admin'] });

# The rows fit into one page.
my ($page, @more) = rows($client, source => 't');
is_deeply([ sort keys %$page ], [ sort qw(t r key snapshot judge rows more) ], 'a page has exactly these fields');
is_deeply($page->{key}, ['id'], 'the page contains the key columns');
like($page->{snapshot}, qr/^\d+:\d+:[\d,]*$/, 'the page contains the snapshot');
is(numbers($page->{rows}), '1 2 3', 'the page contains all rows');
is($page->{rows}[0]{user}, 'u1', 'the rows are read for the user of the token');
is($page->{more}, JSON::false, 'the last page has more: false');
my ($call) = $stub->calls('t');
my ($user, $groups) = split / /, $call, 2;
is($user, 'u1', 'the token determines the user');
my %groups = %{ JSON::decode_json($groups) };
is_deeply({ map { $_ => [ sort @{ $groups{$_} } ] } keys %groups }, { STRUCTURE => [ "s'2", 's1' ], ROLE => ['admin'] }, 'the token determines the groups');
($page) = rows($client, source => 't', rule => 'default');
is(numbers($page->{rows}), '1 2 3', 'a request can name the rule "default"');

# The rows need several pages.
$stub->set('large', row_count => 300, width => 5000);
my @pages = rows($client, source => 'large');
cmp_ok(scalar(@pages), '>=', 6, 'a long list has several pages');
is_deeply([ map { $_->{more} ? 1 : 0 } @pages ], [ (1) x $#pages, 0 ], 'every page except the last has more: true');
is(join(' ', map { numbers($_->{rows}) } @pages), join(' ', 1 .. 300), 'the pages together contain all rows in order');
is_deeply([ map { $_->{snapshot} } @pages ], [ ($pages[0]{snapshot}) x @pages ], 'all pages have one snapshot');
my ($longest) = sort { $b <=> $a } map { length } grep { /"t":"rows"/ } @{ $client->{raw} };
cmp_ok($longest, '<=', 256 * 1024, 'no page is longer than 256 kB');
cmp_ok($longest, '>', 200 * 1024, 'each page except the last is nearly full');
$stub->set('empty', row_count => 0);
($page) = rows($client, source => 'empty');
is_deeply([ $page->{rows}, $page->{more} ], [ [], JSON::false ], 'an empty list has one page without rows');

# Removes the message of an error after checking that it contains the requested rule; the errors must otherwise be
# equal.
sub named_rule
{
    my ($error, $field, $wanted) = @_;
    my $rule = $wanted->{rule} // 'default';
    is(delete $error->{$field}, qq{no such live rule for this user: rule "$rule" of "$wanted->{source}"}, "the error contains rule $rule of $wanted->{source}");
    return;
}

# Errors of requests over WebSocket.
$stub->set('secret', denied => '{u1}');
my @refusals = map { my ($error) = rows($client, %$_); delete $error->{r}; named_rule($error, msg => $_); $error }
  { source => 'missing' }, { source => 't', rule => 'other' }, { source => 'a"\\', rule => "\x{e9}\n" }, { source => 'secret' }, { source => "t'; DROP TABLE stub" };
is($refusals[0]{code}, 103, 'an unknown source returns error 103');
is($refusals[0]{retry}, JSON::false, 'the error for an unknown source has retry: false');
is_deeply($refusals[$_], $refusals[0], 'every other rule that the user may not read returns the same error') for 1 .. $#refusals;
$stub->set('long', row_count => 5001);
$stub->set('wide', row_count => 1000, width => 4900);
my ($error) = rows($client, source => 'long');
is_deeply([ @$error{qw(t code retry)} ], [ 'err', 113, JSON::false ], 'too many rows return error 113');
($error) = rows($client, source => 'wide');
is($error->{code}, 113, 'too many bytes are rejected with 113');
$stub->set('wrong', snapshot => 'nonsense');
($error) = rows($client, source => 'wrong');
is($error->{code}, 100, 'an invalid result is an internal error');
for my $wrong ({ r => 1 }, { r => 2, source => '' }, { r => 3, source => 'x' x 256 }, { r => 4, source => 't', rule => 7 },
    { r => 5, source => 't', user => 'u2' }, { r => 6, source => 't', snapshot => '5:4:' })
{
    $client->send({ t => 'rows', %$wrong });
    is($client->wait_for(sub { ($_[0]{r} // 0) == $wrong->{r} && $_[0]{t} eq 'err' })->{code}, 107, "wrong fields return error 107: $wrong->{r}");
}
($page) = rows($client, source => 't');
is(numbers($page->{rows}), '1 2 3', 'the connection stays open after invalid requests');

# Requests over HTTP.
my ($status, $body) = http('/v1/rows?source=t&rule=default');
is($status, 200, 'GET /v1/rows returns 200');
is_deeply([ sort keys %$body ], [qw(judge key rows snapshot)], 'the body contains judge, key, rows and snapshot');
is(numbers($body->{rows}), '1 2 3', 'the body contains all rows');
($status, $body) = http('/v1/rows?source=large');
is(numbers($body->{rows}), join(' ', 1 .. 300), 'a long list is returned in one response');
($status, $body) = http('/v1/rows?source=public%5Flist', sub => 'u9');
is($body->{rows}[0]{user}, 'u9', 'the token determines the user');
my @problems;
for my $path ('/v1/rows?source=missing', '/v1/rows?source=t&rule=other', '/v1/rows?source=secret')
{
    ($status, $body) = http($path);
    is($status, 403, "$path returns 403");
    my %wanted = $path =~ /(\w+)=(\w+)/g;
    named_rule($body, detail => \%wanted);
    push @problems, $body;
}
is($problems[0]{code}, 103, 'the problem details contain code 103');
is_deeply($problems[$_], $problems[0], 'all problem details are identical') for 1, 2;
($status, $body) = http('/v1/rows?source=long');
is_deeply([ $status, $body->{code} ], [ 413, 113 ], 'too many rows return 413 with code 113');
for my $path ('/v1/rows', '/v1/rows?source=', '/v1/rows?source=t&rule=', '/v1/rows?source=%ff', '/v1/rows?source=' . 'x' x 256)
{
    ($status, $body) = http($path);
    is_deeply([ $status, $body->{code} ], [ 400, 107 ], substr("$path returns 400", 0, 60));
}
is(($relay->get('/v1/rows?source=t'))[0], 401, 'a request without a token returns 401');

# Each request of a burst receives a reply. A user may have 16 waiting requests, a connection 256 unsent replies.
my $burst = $relay->client('u3');
my $first = $next + 1;
$burst->send_text(join "\n", map { qq({"t":"rows","r":$_,"source":"t"}) } $first .. $first + 299);
my %reply;
$burst->run_until('all replies arrive', sub {
    $reply{ $_->{r} } = $_ for grep { ($_->{r} // 0) >= $first } @{ $burst->{messages} };
    return keys %reply == 300;
});
my @rejected = grep { $_->{t} eq 'err' } values %reply;
is(300 - @rejected, 16, 'the first requests of a burst return rows');
is(scalar(grep { $_->{code} != 111 || !$_->{retry} || $_->{after} <= 0 } @rejected), 0, 'all other requests are rejected with 111 and a delay');

# Metrics count errors and queries.
is($relay->metric('clairon_rows_errors_total{kind="too_many"}'), 3, 'errors are counted by kind');
cmp_ok($relay->metric('clairon_rows_query_seconds_count'), '>', 10, 'the duration of queries is recorded');

# A relay without a connection string.
my $gate = Clairon::Test::relay(undef, $store, roles => 'gate');
($error) = rows($gate->client('u1'), source => 't');
is_deeply([ @$error{qw(code retry)} ], [ 100, JSON::false ], 'a gate without conninfo returns an error');
is(($gate->get('/v1/rows?source=t', Authorization => 'Bearer ' . token(sub => 'u1')))[0], 500, 'a request over HTTP returns 500');

done_testing();
