# Tests a client that does not read: it later receives all notifications in order, by priority, and is closed when its
# queue reaches a limit.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::RawSocket qw(TEXT PING PONG);
use JSON ();
use Socket qw(SOL_SOCKET SO_RCVBUF);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE normal (id int PRIMARY KEY, owner text, body text);
    CREATE TABLE high (id int PRIMARY KEY, owner text);
    CREATE TABLE low (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('normal', 'USER', 'owner');
    SELECT clairon.watch('high', 'USER', 'owner', priority => 'HIGH');
    SELECT clairon.watch('low', 'USER', 'owner', priority => 'LOW')});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'gate.ping' => '10m', 'gate.slow_age' => '10m', 'gate.slow_bytes' => '100MB' });
my $json  = JSON->new->utf8;
my ($rows, $notifications) = (0, 0);

# Inserts rows of 10 kB in one transaction; returns after the relay has read their notifications.
sub insert
{
    my ($owner, $count) = @_;
    $pg->safe_psql('postgres', "INSERT INTO normal SELECT $rows + i, '$owner', repeat('x', 10000)"
          . " FROM generate_series(1, $count) i");
    $rows += $count;
    return read_by_relay($count);
}

sub insert_into
{
    my ($table, $id, $owner) = @_;
    $pg->safe_psql('postgres', "INSERT INTO $table VALUES ($id, '$owner')");
    return read_by_relay(1);
}

sub read_by_relay
{
    my ($count) = @_;
    $notifications += $count;
    wait_until("$notifications notifications are read", sub { $relay->metric('clairon_hub_notifications_total') >= $notifications });
    return;
}

sub delivered { return $relay->metric('clairon_hub_delivered_total') }

# Creates a client that reads only on demand, with a fixed receive buffer.
sub reader
{
    my ($user, %options) = @_;
    my $raw = Clairon::Test::RawSocket->open($relay);
    setsockopt $raw->{link}, SOL_SOCKET, SO_RCVBUF, 131072 or die "setsockopt: $!\n";
    $raw->send_json({ t => 'connect', r => 1, token => Clairon::Test::token(sub => $user), %options });
    $raw->wait_message('connected');
    return $raw;
}

# Inserts rows until the relay cannot write all notifications, so that some are queued.
sub block
{
    my ($user) = @_;
    my ($first, $before) = ($rows + 1, delivered() - $rows);
    do { insert($user, 10) } until delivered() - $before < $rows;
    return $first;
}

# Reads frames until row `$last` of `$table`; returns [table, id] of each row, and the opcodes of other frames.
sub read_until
{
    my ($raw, $table, $last) = @_;
    my (@got, @others);
    while (my $frame = $raw->next_frame)
    {
        if ($frame->{opcode} != TEXT) { push @others, $frame; next; }
        for my $line (map { $json->decode($_) } split /\n/, $frame->{payload})
        {
            next if $line->{t} ne 'msg';
            push @got, { table => $line->{n}{metadata}{source}, id => $line->{n}{payload}{after}{id}, pos => $line->{pos} };
            return (\@got, \@others) if $got[-1]{table} eq $table && $got[-1]{id} == $last;
        }
    }
    die "the relay closed before row $last of $table\n";
}

sub names { return join ' ', map { "$_->{table} $_->{id}" } @_ }

# The client stops reading; notifications and pings are queued.
my $slow  = reader('slow');
my $other = $relay->client('other');
my $first = block('slow');
insert('slow', 300);
insert_into('normal', ++$rows, 'other');
$other->run_until('the other client\'s row arrives', sub { $other->notifications == 1 });
pass('a client that does not read does not block other clients');
$slow->frame(PING, 'are you there') for 1 .. 3;
my ($got, $others) = read_until($slow, 'normal', $rows - 1);
is(names(@$got), join(' ', map { "normal $_" } $first .. $rows - 1), 'a slow client receives every notification in order, without duplicates');
is_deeply([ map { "$_->{opcode} $_->{payload}" } @$others ], [ (PONG . ' are you there') x 3 ],
    'a WebSocket ping from a slow client receives its reply between two text frames');

# Queued notifications are sent by priority.
$first = block('slow');
my $last = $rows;
insert_into('low', 1, 'slow');
insert_into('normal', ++$rows, 'slow');
insert_into('high', 1, 'slow');
insert_into('high', 2, 'slow');
($got) = read_until($slow, 'low', 1);
my @order = grep { !/^normal/ || $_ eq "normal $rows" } map { "$_->{table} $_->{id}" } @$got;
is_deeply(\@order, [ 'high 1', 'high 2', "normal $rows", 'low 1' ], 'HIGH precedes NORMAL, which precedes LOW');
is($got->[-1]{table}, 'low', 'LOW notifications are last');
is(names(grep { $_->{table} eq 'normal' } @$got), join(' ', map { "normal $_" } $first .. $rows),
    'notifications of one priority are in commit order');

# A client disconnects right after it received a notification that overtook other notifications. When the client
# resumes, it receives the overtaken notifications.
my ($high)   = grep { $got->[$_]{table} eq 'high' } 0 .. $#$got;
my @overtook = map { "$_->{table} $_->{id}" } grep { $_->{table} ne 'high' } @{$got}[ $high + 1 .. $#$got ];
cmp_ok(scalar(@overtook), '>=', 2, 'some notifications were overtaken');
$slow->disconnect;
$slow = reader('slow', pos => $got->[$high]{pos});
my %again;
while (keys %again < @overtook)
{
    my $line = $slow->wait_message('msg');
    my $name = "$line->{n}{metadata}{source} $line->{n}{payload}{after}{id}";
    $again{$name} = 1 if grep { $_ eq $name } @overtook;
}
is_deeply([ sort keys %again ], [ sort @overtook ], 'the cursor is before the overtaken notifications');
$slow->disconnect;

# A client is closed when its unsent data is too large, then when it is too old.
sub check_closed
{
    my ($user, $why) = @_;
    my $raw = reader($user);
    my $pos = $raw->{messages}[-1]{pos};
    my $from = block($user);
    insert($user, 60);
    wait_until("$user is closed", sub { $relay->log_text =~ /closing connection" code=4101 reason=.*$why.* user="$user"/ });
    my $end = $raw->read_to_end;
    my @received = grep { $_->{t} eq 'msg' } @{ $end->{messages} };
    like($end->{code}, qr/^(4101|1006)$/, "$why: a client that does not read is closed");
    $pos = $received[-1]{pos} if @received;
    my $missing = $rows - ($from - 1 + @received);
    my $reconnected = $relay->client($user, pos => $pos);
    is($reconnected->wait_for('connected')->{resumed}, JSON::true, 'the closed client resumes');
    $reconnected->wait_notifications($missing);
    is(join(' ', map { $_->{payload}{after}{id} } $reconnected->notifications), join(' ', $from + @received .. $rows), 'the closed client receives the missed notifications from its cursor');
    return;
}

$relay->configure('gate.slow_bytes' => '300kB');
$relay->restart;
$notifications = 0;
check_closed('much', 'slow_bytes');
$relay->configure('gate.slow_bytes' => '100MB', 'gate.slow_age' => '1s');
$relay->restart;
$notifications = 0;
check_closed('old', 'older than slow_age');

done_testing();
