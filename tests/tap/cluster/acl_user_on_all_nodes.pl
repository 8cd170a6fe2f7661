# Tests that the relay logs in to every node as the ACL user of store.url, including a node that joins later and a
# promoted replica, with the permissions of the Helm chart, which are also those of docker/images/store-entry.sh. All
# commands are permitted with those of docker/INSTALL.md too.
use strict;
use warnings;

use Clairon::Test qw(wait_until top);
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my ($rules) = slurp_file(top() . '/docker/INSTALL.md') =~ /^\$CLI ACL SETUSER relay on (.*)$/m or die 'the page has no ACL user';
my ($of_keydb) = slurp_file(top() . '/docker/CLUSTER.md') =~ /With KeyDB and Redis 6\.2 add `(.*?)`/ or die 'the page has no rules for KeyDB';
$rules .= " $of_keydb" if !Clairon::Test::StoreCluster::has_bus_port();
my @typed = map { s/^'|'$//gr } split / /, $rules;
my ($of_chart) = slurp_file(top() . '/docker/helm/templates/store.yaml') =~ / ~clairon:\* (-\@all(?:\s+\+\S+)+)/ or die 'the chart has no ACL user';
my @rules = ('>store-secret', '~clairon:*', split ' ', $of_chart);
my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id serial PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true)});

sub insert { return $pg->safe_psql('postgres', q{INSERT INTO t (owner) SELECT 'u' || i FROM generate_series(1, 8) i RETURNING id}) }

# The test connects as the default user, over Unix sockets.
sub add_user
{
    my ($node) = @_;
    $node->execute('ACL', 'SETUSER', 'typed', 'on', @typed);
    return $node->execute('ACL', 'SETUSER', 'relay', 'on', @rules);
}

# Returns the users of TCP connections, except connections between nodes, which also move slots.
sub users_of
{
    my ($node) = @_;
    return map { /user=(\S+)/ ? $1 : () } grep { !/flags=[SMO]|addr=\S*sock|cmd=restore/ } split /\n/, $node->execute('CLIENT', 'LIST', 'TYPE', 'normal');
}

my $cluster = Clairon::Test::store_cluster();
add_user($_) for $cluster->alive;
my $relay   = Clairon::Test::relay($pg, $cluster, start => 0, conf => { 'delivery.ack_timeout' => '1h',
    'store.url' => $cluster->url =~ s{//}{//relay:wrong@}r });
$relay->start;
$relay->wait_for_log(qr/WRONGPASS/);
is($cluster->stored, 0, 'a wrong password is rejected');
$relay->stop;
$relay->configure('store.url' => $cluster->url =~ s{//}{//relay:store-secret@}r);
$relay->start;
$relay->wait_ready;
my %clients = map { $_ => $relay->client("u$_") } 1 .. 8;

sub check_delivered
{
    my ($what) = @_;
    my @ids = split /\n/, insert();
    for my $user (sort keys %clients)
    {
        $clients{$user}->wait_row($ids[ $user - 1 ]);
        $clients{$user}->ack(map { $_->{metadata}{id} } $clients{$user}->notifications);
    }
    wait_until("$what: all acknowledgements are stored", sub { $cluster->pending == 0 });
    return pass("$what: notifications are delivered and acknowledged");
}

sub check_users
{
    my ($what, @nodes) = @_;
    for my $node (@nodes)
    {
        my %users;
        wait_until("$what: the relay is connected", sub { %users = map { $_ => 1 } users_of($node); $users{relay} });
        is(join(' ', sort keys %users), 'relay', "$what: the relay is connected to each primary as its user");
    }
    return;
}

check_delivered('initially');
check_users('initially', $cluster->primaries);

my $node = $cluster->add_node;
add_user($node);
$cluster->move($_, $node) for 0 .. 3;
check_delivered('after a node joined');
check_users('after a node joined', $node);

my $former = $cluster->primary_of(9);
$former->kill9;
check_delivered('after a failover');
check_users('after a failover', $cluster->primary_of(9));
unlike($relay->log_text, qr/NOPERM|NOAUTH/, 'the permissions of the chart are sufficient');
for my $user (qw(relay typed))
{
    my ($status, $out) = $relay->run('doctor', "--store.url=" . $cluster->url =~ s{//}{//$user:store-secret@}r);
    my @permitted = $out =~ /commands\W.*?(\d+) of \1 permitted/g;
    is(scalar @permitted, scalar($cluster->alive), "doctor finds all commands permitted to user $user on each node") or diag $out;
}

# An operator has added a node without the user. Until it has slots, it does not affect the shards.
my $mark = $relay->log_mark;
$cluster->add_node;
$relay->restart;
%clients = map { $_ => $relay->client("u$_") } 1 .. 8;
check_delivered('with a node that lacks the user');
my @times = map { my ($h, $m, $s) = split /:/; 3600 * $h + 60 * $m + $s }
  $relay->log_text($mark) =~ /level=warn time=\S+T(\S+)Z msg="could not count the keys.*error="(?:WRONGPASS|NOAUTH)/g;
ok(scalar @times, 'the relay warns that it could not check the node');
ok(!grep({ ($times[$_] - $times[ $_ - 1 ]) % 86_400 < 9 } 1 .. $#times), 'the warning is logged at most once in ten seconds') or diag "@times";

done_testing();
