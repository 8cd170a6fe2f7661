# Tests GET /v1/audit: the acts of two relays, of their workers and signals, and of commands are stored once and in order,
# also those while the store is away; acts are kept for 90 days; and a removed user is named by a hash, in older acts too.
use strict;
use warnings;

use Clairon::Test qw(wait_until token audited);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $UNKNOWN = '01890000-0000-7000-8000-000000000000';
my $DAY     = 86_400_000;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $one   = Clairon::Test::relay($pg, $store, conf => { 'gate.workers' => 2 });
my $two   = Clairon::Test::relay($pg, $store, roles => 'gate', conf => { 'gate.console' => 'on' });
my $me    = getpwuid $<;

sub http
{
    my ($relay, $method, $path, $body, %claims) = @_;
    return Clairon::Test::RawSocket->new($relay)->request($method, $path, ':body' => $body,
        Authorization => 'Bearer ' . token(sub => 'op', admin => JSON::true, %claims));
}
sub acts { my ($relay, $query) = @_; return @{ http($relay, GET => '/v1/audit' . ($query // ''))->{json} } }
sub texts { return map { "$_->{actor} $_->{act} $_->{object}" } acts(@_) }
sub has_acts
{
    my ($what, @wanted) = @_;
    wait_until($what, sub { my @found = texts($two); @found >= @wanted });
    is_deeply([ texts($two) ], \@wanted, $what);
    return;
}

is_deeply([ acts($two) ], [], 'at first there are no acts');
is(http($two, GET => '/v1/audit', undef, admin => undef)->{status}, 403, 'the list needs the claim admin');

# Each act, on two relays, by signals and by commands.
my @wanted;
is(http($one, POST => "/v1/notifications/$UNKNOWN/drop")->{status}, 404, 'a drop over HTTP is an act');
push @wanted, "op drop $UNKNOWN";
has_acts('the first act is stored', @wanted);
http($two, POST => '/v1/console/redrive', { entry => '5-0' });
push @wanted, 'op redrive error log: entry 5-0';
has_acts('the act of the other relay follows', @wanted);
http($two, POST => '/v1/console/drop', { entry => '6-0' });
push @wanted, 'op drop error log: entry 6-0';
has_acts('so does a drop of a dead letter', @wanted);
is(http($two, POST => '/v1/realtime', { on => JSON::false })->{status}, 204, 'real-time delivery is off');
push @wanted, 'op realtime off';
has_acts('the switch is an act', @wanted);
kill 'USR2', $two->pid;
push @wanted, 'signal realtime on';
has_acts('so is a signal', @wanted);
kill 'USR1', $one->pid;
push @wanted, 'signal realtime off';
has_acts('a signal to several workers is one act', @wanted);
kill 'USR2', $one->pid;
push @wanted, 'signal realtime on';
has_acts('and so is the next one', @wanted);

$store->execute('XADD', $store->shared('errors'), '*', id => $UNKNOWN, reason => 'exhausted', attempts => 1, users => '["amy"]', data => '{}', route => '');
my ($code, $out, $err) = $two->run('errors', 'drop', '--user', 'amy');
is_deeply([ audited($err) ], ['act="drop" object="error log: user=amy"'], 'a command prints its act');
push @wanted, "$me drop error log: user=amy";
has_acts('and stores it', @wanted);
$pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{amy}', '{}', source => 'amy', ack_required => true)});
wait_until('a notification is pending', sub { $store->pending == 1 });
$two->run('drop', '--source', 'amy');
push @wanted, "$me drop source=amy";
has_acts('a drop by source is an act', @wanted);

# While the store is away, acts wait.
$store->kill9;
wait_until('a relay has lost the store', sub { ($two->get('/readyz'))[0] == 503 });
kill 'USR1', $two->pid;
$two->wait_for_log(qr/component=audit .*actor="signal" act="realtime" object="off"/);
kill 'USR2', $two->pid;
wait_until('both are logged', sub { 2 <= (() = $two->log_text =~ /component=audit .*actor="signal" act="realtime" object="on"/g) });
$store->start;
push @wanted, 'signal realtime off', 'signal realtime on';
$two->wait_ready;
has_acts('the acts of the time without a store are stored later, in order', @wanted);
is($two->metric('clairon_audit_lost_total'), 0, 'none was lost');

# Pages.
my @all = acts($one);
my ($after, @paged) = ('');
for (1 .. @all)
{
    my $page = http($one, GET => "/v1/audit?limit=5&after=$after");
    push @paged, @{ $page->{json} };
    $after = $page->{headers}{'clairon-next'};
    last if @{ $page->{json} } < 5;
}
is_deeply(\@paged, \@all, 'the pages contain all acts');
is_deeply([ acts($one, "?after=$after") ], [], 'the last cursor is behind the last act');
like($all[0]{at}, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, 'an act has its time');
is_deeply([ sort keys %{ $all[0] } ], [qw(act actor at object)], 'and no more than actor, act and object');
is(http($one, GET => '/v1/audit?limit=0')->{status}, 400, 'an invalid limit is rejected');
is(http($one, GET => "/v1/audit?after=$_")->{status}, 400, "so is the cursor $_") for 'x', '5', join '-', ('18446744073709551615') x 2;

# Removed users.
is(($two->run('forget', 'amy'))[0], 0, 'the user is removed');
my ($hash) = map { /^\Q$me\E forget (.*)$/ } texts($two);
like($hash, qr/^sha256:[\w-]{43}$/, 'the act of the removal has a hash');
s/^(\Q$me\E drop error log: user=)amy$/$1$hash/ for @wanted;
is_deeply([ (texts($two))[ 0 .. $#wanted ] ], \@wanted, 'older acts have the same hash, and a source of that name remains');
http($two, POST => '/v1/realtime', { on => JSON::true }, sub => 'amy');
wait_until('an act of the user is stored', sub { (texts($two))[-1] eq "$hash realtime on" });
pass('a later act does not name the user again');

# Acts are kept for 90 days.
my $key = $store->shared('audit');
my @rows = @{ $store->execute('XRANGE', $key, '-', '+') };
$store->execute('DEL', $key);
my $now = $rows[-1][0] =~ s/-.*//r;
$store->execute('XADD', $key, $now - 90 * $DAY - 1000 . '-0', @{ $rows[0][1] });
$store->execute('XADD', $key, $now - 89 * $DAY . '-0', @{ $rows[1][1] });
is_deeply([ texts($two) ], [ $wanted[1] ], 'older acts are not shown');
http($two, POST => '/v1/realtime', { on => JSON::true });
wait_until('the next act is stored', sub { $store->execute('XREVRANGE', $key, '+', '-', 'COUNT', 1)->[0][0] > $now - $DAY });
is($store->execute('XLEN', $key), 2, 'older acts are removed');

done_testing();
