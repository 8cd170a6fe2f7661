# Tests a script on the store that runs for a long time: the server answers BUSY to all other requests. The relay waits
# on its connections, closes no client, counts no fault of the store, and delivers everything afterwards.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed amount);
use POSIX ();
use Test::More;
use Time::HiRes qw(time);

my $SECONDS = amount(11, 20);    # longer than the reader's timeout
my $pg      = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{CREATE TABLE t (id serial PRIMARY KEY, owner text); CREATE TABLE acked (id serial PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner'); SELECT clairon.watch('acked', 'USER', 'owner', ack_required => true)});
my $store  = Clairon::Test::store(options => [ '--lua-time-limit', 100 ]);
my $relay  = Clairon::Test::relay($pg, $store);
my $client = $relay->client('u1');

sub insert { my ($count) = @_; $pg->safe_psql('postgres', "INSERT INTO $_ (owner) SELECT 'u1' FROM generate_series(1, $count)") for qw(t acked); return }
sub rows { my ($of) = @_; return map { "$_->{metadata}{source} $_->{payload}{after}{id}" } $of->notifications }

# Returns the numbers of the relay's connections.
sub connections { return map { /^id=(\d+) .* cmd=(?!client|eval )/ ? $1 : () } split /\n/, $store->execute('CLIENT', 'LIST') }

insert(2);
$client->wait_notifications(4);
wait_confirmed($pg);
my @before = connections();
my $errors = $relay->metric('clairon_store_errors_total');
my $mark   = $relay->log_mark;

my $pid = fork // die "could not fork: $!";
if ($pid == 0)
{
    eval { $store->execute('EVAL', 'for i = 1, 1e10 do end', 0) };
    POSIX::_exit(0);
}
my $began = time;
wait_until('the store is busy', sub { !eval { $store->execute('PING') } && $@ =~ /BUSY/ });
insert(20);
$client->ack_received;
$client->run_until('the script runs', sub { time > $began + $SECONDS || $client->{closed} });
like((eval { $store->execute('PING') } // $@), qr/BUSY/, 'the store is still busy');
is($client->{closed}, undef, 'the client remains connected');
$store->execute('SCRIPT', 'KILL');
waitpid $pid, 0;

$client->wait_notifications(44);
pass('the rows are delivered after the script has ended');
is($client->{closed}, undef, 'the client remains connected');
is_deeply([ sort { $a cmp $b } rows($client) ], [ sort { $a cmp $b } map { ("t $_", "acked $_") } 1 .. 22 ], 'each row is delivered once');
is($client->gaps, '', 'without a gap');
my %after = map { $_ => 1 } connections();
is(join(' ', grep { !$after{$_} } @before), '', 'the relay has kept its connections to the store');
is($relay->metric('clairon_store_errors_total'), $errors, 'no fault of the store is counted');
my $log = $relay->log_text($mark);
is_deeply([ $log =~ /level=error.*/g ], [], 'no error is logged');
is(scalar(() = $log =~ /level=warn.*busy/g), $store->shards, 'one warning is logged for each shard');
unlike($log, qr/timed out/, 'no connection times out');

my $pos   = $client->pos;
my $again = $relay->client('u1', pos => $pos);
ok($again->{messages}[0]{resumed}, 'the client resumes');
$_->ack_received for $client, $again;
$again->run_until('all acknowledgements are stored', sub { $_->ack_received for $client, $again; $store->pending == 0 });
wait_confirmed($pg);
pass('the slot advances');

done_testing();
