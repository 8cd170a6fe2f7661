# Tests a relay that reads the server's state, and then acquires the progress late: meanwhile another relay created the
# slot or stored rows, and ended. No client receives a gap, because nothing was lost.
use strict;
use warnings;

use Clairon::Test qw(wait_until scratch);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{CREATE TABLE t (id int PRIMARY KEY, owner text); SELECT clairon.watch('t', 'USER', 'owner')});
my $store = Clairon::Test::store();

# The results of IDENTIFY_SYSTEM, or of the query of the slot, wait while a file exists.
my $held = scratch() . '/held';
my %held = map { ($_ => "$held.$_") } qw(systemid confirmed_flush_lsn);
my $proxy = Clairon::Test::proxy($pg->host . '/.s.PGSQL.' . $pg->port, edit => sub {
    my ($column) = $_[0] =~ /(systemid|confirmed_flush_lsn)/ or return;
    return if !-e "$held{$column}.hold";
    open my $file, '>', $held{$column} or die "could not write: $!";
    close $file;
    select undef, undef, undef, 0.01 while -e "$held{$column}.hold";
});
my %late = (conf => { 'feed.conninfo' => "host=127.0.0.1 port=$proxy->{port} dbname=postgres" });

sub hold
{
    my ($column) = @_;
    unlink $held{$column};
    open my $file, '>', "$held{$column}.hold" or die "could not write: $!";
    return close $file;
}

sub wait_held { my ($column) = @_; return wait_until('the result is held', sub { -e $held{$column} }) }
sub release   { my ($column) = @_; return unlink "$held{$column}.hold" }

my $client;
my $rows = 0;

sub insert
{
    my ($count) = @_;
    my ($from, $to) = ($rows + 1, $rows += $count);
    $pg->safe_psql('postgres', "INSERT INTO t SELECT i, 'u1' FROM generate_series($from, $to) i");
    return $client->wait_notifications($rows);
}

# The slot is missing at first.
my $gate = Clairon::Test::relay(undef, $store, roles => 'gate');
$client = $gate->client('u1');
hold('confirmed_flush_lsn');
my $second = Clairon::Test::relay($pg, $store, %late, roles => 'feed', wait => 0);
wait_held('confirmed_flush_lsn');
my $first = Clairon::Test::relay($pg, $store, roles => 'feed');
insert(10);
$first->stop;
release('confirmed_flush_lsn');
insert(10);
pass('a slot that another relay created meanwhile is not lost');

# The WAL has ended before the progress at first.
$first->start;
$first->wait_for_log(qr/waiting as standby/);
hold('systemid');
$second->stop;
insert(10);
$second->start;
wait_held('systemid');
insert(10);
$first->stop;
release('systemid');
insert(10);
pass('rows that another relay stored meanwhile were not undone');

is_deeply([ map { $_->{payload}{after}{id} } $client->notifications ], [ 1 .. $rows ], 'each row is delivered once, in order');
is_deeply([ grep { $_->{t} eq 'gap' } @{ $client->{messages} } ], [], 'the client receives no gap');
is($store->entries, $rows, 'each row is stored once');
done_testing();
